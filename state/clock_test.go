package state

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
	"unsafe"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
)

// clock is a machine's clock. Its wall clock can be set, its monotonic reading cannot.
type clock struct {
	now time.Time     // with a monotonic reading
	set time.Duration // how far the wall clock was set, in whole seconds
}

// read returns what time.Now would return.
func (c *clock) read() time.Time {
	t := c.now
	// Package time cannot set the wall clock alone. Bits 30 to 62 of a Time's first word are its seconds.
	wall := (*uint64)(unsafe.Pointer(&t))
	*wall += uint64(c.set/time.Second) << 30
	return t
}

func TestClockOfTheTestsCanBeSet(t *testing.T) {
	c := clock{now: time.Now()}
	before := c.read()
	c.now, c.set = c.now.Add(time.Second), -time.Hour
	after := c.read()
	wall, mono := after.Round(0).Sub(before.Round(0)), after.Sub(before)
	testutil.Assert(t, wall == time.Second-time.Hour && mono == time.Second,
		"the wall clock moved by %v and the monotonic reading by %v", wall, mono)
}

func TestClockSet(t *testing.T) {
	for name, test := range map[string]struct {
		by   time.Duration
		want bool
	}{
		"not":     {0, false},
		"back":    {-time.Second, true},
		"forward": {time.Hour, true},
	} {
		c := clock{now: time.Now()}
		before := c.read()
		c.now, c.set = c.now.Add(2*time.Second), test.by
		testutil.Equal(t, clockSet(before, c.read()), test.want, "%s", name)
	}
}

// checkLists checks that every list of a table has the entries of byID, each once and in the list's order.
func checkLists[T any](t *testing.T, k kind[T], list table[T], want map[string]*T) {
	t.Helper()
	byID := map[string]*T{}
	for _, entry := range list.byID.all() {
		byID[k.id(entry)] = entry
	}
	ids := slices.Collect(maps.Keys(byID))
	testutil.Require(t, list.byID.size == len(want) && len(ids) == len(want),
		"byID has %d entries with %d ids, want %d", list.byID.size, len(ids), len(want))
	for id := range want {
		found := list.find(&k, id)
		testutil.Require(t, found != nil && found == byID[id], "%s is found as %v", id, found)
	}
	for v, order := range k.views {
		view := list.views[v].all()
		testutil.Require(t, len(view) == len(byID), "view %d has %d entries, want %d", v, len(view), len(byID))
		for i, entry := range view {
			testutil.Require(t, byID[k.id(entry)] == entry,
				"view %d has an entry of %s that byID has not", v, k.id(entry))
			for _, later := range view[i+1:] {
				testutil.Require(t, order(entry, later) < 0, "view %d has %s before %s", v, k.id(entry), k.id(later))
			}
		}
	}
}

// wantWall checks that times have no monotonic reading.
func wantWall(t *testing.T, times ...time.Time) {
	t.Helper()
	for _, at := range times {
		testutil.Require(t, at == at.Round(0), "%v has a monotonic reading", at)
	}
}

// FuzzListsWhileTheClockIsSet writes pods and containers while the clock is set back and forth. Some have times of this
// process, others times without a monotonic reading, as from the engine or a record. Each byte is a step.
func FuzzListsWhileTheClockIsSet(f *testing.F) {
	for seed := range uint64(200) {
		random, steps := rand.New(rand.NewPCG(seed, 0)), make([]byte, 150)
		for i := range steps {
			steps[i] = byte(random.Uint32())
		}
		f.Add(steps)
	}
	f.Fuzz(func(t *testing.T, steps []byte) {
		cache := New(Options{})
		c := clock{now: time.Now()}
		pods, containers := map[string]*Pod{}, map[string]*Container{}
		for _, step := range steps {
			c.now = c.now.Add(time.Second)
			what, id := step&7, string('a'+rune(step>>3&7))
			at := c.read()
			if step>>6&1 == 1 {
				at = at.Round(0)
			}
			switch what {
			case 0, 1: // back to front, in seconds
				c.set += time.Duration(int(step>>3)-16) * 3 * time.Second
			case 2:
				cache.PutPod(
					Pod{ID: "p" + id, Meta: PodMeta{CreatedAt: at},
						Status: PodStatus{Running: true, NetworkReady: true, StartedAt: at}})
				pods["p"+id] = &Pod{}
			case 3:
				cache.EndPod("p" + id)
			case 4:
				cache.PutContainer(Container{ID: "c" + id, SandboxID: "p" + id, Meta: ContainerMeta{CreatedAt: at}})
				containers["c"+id] = &Container{}
			case 5:
				cache.UpdateContainer("c"+id, func(s *ContainerStatus) { s.Running, s.StartedAt = true, at })
			case 6:
				cache.UpdatePod("p"+id, func(s *PodStatus) {
					s.Running, s.Stopping, s.finishedAt = !s.Running, false, at
				})
			case 7:
				cache.RemovePod("p" + id)
				cache.RemoveContainer("c" + id)
				cache.dropTombstones()
				delete(pods, "p"+id)
				delete(containers, "c"+id)
			}
			now := cache.Snapshot()
			checkLists(t, podKind, now.pods, pods)
			checkLists(t, containerKind, now.containers, containers)
			for _, p := range now.Pods() {
				wantWall(t, p.Meta.CreatedAt, p.Status.StartedAt, p.Status.finishedAt)
			}
			for _, c := range now.Containers() {
				wantWall(t, c.Meta.CreatedAt, c.Status.StartedAt, c.Status.FinishedAt)
			}
			ready := now.PodsIn(runtimeapi.PodSandboxState_SANDBOX_READY)
			all := len(ready) + len(now.PodsIn(runtimeapi.PodSandboxState_SANDBOX_NOTREADY))
			testutil.Require(t, all == len(pods), "%d pods are in a state, want %d", all, len(pods))
		}
	})
}

// A clock that is set back neither removes a pod from the lists nor shows it twice.
func TestListsAreWholeAfterTheClockWasSetBack(t *testing.T) {
	cache := New(Options{})
	c := clock{now: time.Now()}
	want := map[string]*Pod{}
	for i := range 40 {
		c.now = c.now.Add(time.Second)
		if i%7 == 6 {
			c.set -= 10 * time.Second
		}
		id, at := string('a'+rune(i%20))+"1", c.read()
		if i%3 == 0 {
			at = at.Round(0) // as after a restart
		}
		cache.PutPod(Pod{ID: id, Meta: PodMeta{CreatedAt: at}})
		want[id] = nil
		if i%5 == 4 {
			cache.UpdatePod(id, func(s *PodStatus) { s.Running, s.NetworkReady = true, true })
		}
		got := map[string]int{}
		for _, pod := range cache.Snapshot().Pods() {
			got[pod.ID]++
		}
		for id := range want {
			testutil.Assert(t, got[id] == 1, "after %d writes the list shows pod %s %d times", i+1, id, got[id])
		}
		if t.Failed() {
			return
		}
	}
}

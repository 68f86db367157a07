package container

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/internal/testutil"
)

// countedKills is a fake Cgroups that counts out-of-memory kills by cgroup parent.
type countedKills struct {
	plainCgroup
	mu    sync.Mutex
	kills map[string]uint64
}

func (c *countedKills) OOMKills(parent, _ string) (uint64, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.kills[parent], parent != ""
}

func (c *countedKills) kill(parent string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kills[parent]++
}

// eventTap is an engine whose events a test can add to.
type eventTap struct {
	docker.Engine
	handle func(docker.Event)
}

func (e *eventTap) Events(ctx context.Context, opts docker.EventsOptions) error {
	e.handle = opts.Handle
	return e.Engine.Events(ctx, opts)
}

// The engine may report an out-of-memory kill after the exit. A later start of criadapter knows it from the record,
// even if the engine has no such container any more.
func TestOutOfMemoryEventAfterTheExitIsSaved(t *testing.T) {
	n, engine := newFakeNode(t)
	tap := &eventTap{Engine: engine}
	n.engine = tap
	n.restart(func() {})
	stop := n.watch()
	pod, id := n.runningInPod()
	n.exit(engine, id, 137)
	tap.handle(docker.Event{Kind: docker.ContainerOOM, ID: id})
	testutil.Until(t, "the record has the kill", func() bool {
		kept, err := n.loadRecord(t.Context(), pod, id)
		return err == nil && !kept.OOMRun.IsZero()
	})
	stop()
	n.restart(func() { testutil.Must(t, engine.RemoveContainer(t.Context(), id)) })
	testutil.Assert(t, n.look(id).Status.OOMKilled, "the status is %+v", n.look(id).Status)
}

// The kernel's count below the pod's cgroup shows an out-of-memory kill that the engine does not report.
func TestOutOfMemoryKillThatTheEngineMissed(t *testing.T) {
	const parent, other = "/kubepods/pod1", "/kubepods/pod2"
	for name, test := range map[string]struct {
		before, killed string // the cgroup parents whose counts rise before the start, and while the container runs
		exitCode       int
		want           bool
	}{
		"killed by the kernel":             {"", parent, 137, true},
		"only a child process killed":      {"", parent, 1, false},
		"SIGKILL without an OOM kill":      {"", "", 137, false},
		"OOM kill in another pod":          {"", other, 137, false},
		"OOM kill before the start":        {parent, "", 137, false},
		"OOM kills before and after start": {parent, parent, 137, true},
	} {
		t.Run(name, func(t *testing.T) {
			n, engine := newFakeNode(t)
			counted := &countedKills{plainCgroup: newCgroup(t, n), kills: map[string]uint64{}}
			n.opts.Cgroups = counted
			counted.kill(test.before)
			pod := n.podIn(parent)
			id := n.started(pod, n.config("sleep"))
			counted.kill(test.killed)
			testutil.Must(t, engine.Exit(id, test.exitCode))
			n.waitState(id, runtimeapi.ContainerState_CONTAINER_EXITED)
			testutil.Equal(t, n.look(id).Status.OOMKilled, test.want, "OOMKilled")
			_, err := n.cache.RefreshContainer(t.Context(), id)
			testutil.Must(t, err)
			testutil.Equal(t, n.look(id).Status.OOMKilled, test.want, "OOMKilled at the next inspect")
			n.restart(func() {})
			testutil.Equal(t, n.look(id).Status.OOMKilled, test.want, "OOMKilled after a restart")
		})
	}
}

// slowCount returns a reader of a count. It closes counted when it begins, and returns when goOn is closed.
func slowCount() (read func() (uint64, bool), counted, goOn chan struct{}) {
	counted, goOn = make(chan struct{}), make(chan struct{})
	return func() (uint64, bool) {
		close(counted)
		<-goOn
		return 0, true
	}, counted, goOn
}

// Two containers of a pod end at once. The kernel kills one between the two readings of the count. The exit of a third
// container does not count as a kill.
func TestCountsOfOutOfMemoryKillsAreInOrder(t *testing.T) {
	k := &oomKills{}
	count := func(n uint64) func() (uint64, bool) { return func() (uint64, bool) { return n, true } }
	k.rose("pod", count(0))
	read, counted, goOn := slowCount()
	first := testutil.Go(func() error {
		k.rose("pod", read)
		return nil
	})
	<-counted
	second := testutil.Go(func() error {
		if !k.rose("pod", count(1)) {
			return errors.New("the kill is not seen")
		}
		return nil
	})
	time.Sleep(20 * time.Millisecond) // time in which the second call could overtake the first
	close(goOn)
	testutil.Must(t, <-first)
	testutil.Must(t, <-second)
	testutil.Assert(t, !k.rose("pod", count(1)), "a kill was counted twice")
}

// The first two containers of a pod start at once. The count of the later start would hide a kill of the other
// container.
func TestFirstCountOfOutOfMemoryKillsIsReadOnce(t *testing.T) {
	k := &oomKills{}
	read, counted, goOn := slowCount()
	first := testutil.Go(func() error {
		k.begin("pod", read)
		return nil
	})
	<-counted
	second := testutil.Go(func() error {
		if k.begin("pod", func() (uint64, bool) { return 1, true }) {
			return errors.New("the count is read twice")
		}
		return nil
	})
	close(goOn)
	testutil.Must(t, <-first)
	testutil.Must(t, <-second)
	testutil.Assert(t, k.rose("pod", func() (uint64, bool) { return 1, true }), "the kill is hidden")
}

// A pod whose cgroup cannot be read for a while does not delay the starts and exits of other pods.
func TestCountsOfOutOfMemoryKillsDoNotWaitForOtherPods(t *testing.T) {
	k := &oomKills{}
	read, counted, goOn := slowCount()
	slow := testutil.Go(func() error {
		k.rose("slow", read)
		return nil
	})
	<-counted
	other := testutil.Go(func() error {
		k.rose("pod", func() (uint64, bool) { return 0, true })
		return nil
	})
	testutil.Must(t, testutil.Receive(t, other, "the other pod's count"))
	close(goOn)
	testutil.Must(t, <-slow)
}

package eviction

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/events"
	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/kubelet/model/modeltest"
	"github.com/criadapter/criadapter/kubelet/podstats"
)

// node is the input of a manager, and the record of its actions.
type node struct {
	pods    []*v1.Pod
	stats   map[types.UID]podstats.Pod
	err     error
	over    map[types.UID]bool
	evicted []string
	// signals are the calls of Evicted.
	signals []string
	events  *events.Recorder
	// reclaimed are the calls of RemoveDead and RemoveImages. Each call ends with a call of afterwards.
	reclaimed  []string
	afterwards func()
	monitor    *Monitor
	// grace is the grace period of the last pod.
	grace int64
	// changes counts the changes of the node's conditions.
	changes int
}

func (n *node) options(t *testing.T) Options {
	t.Helper()
	n.events = events.New("here")
	if n.monitor == nil {
		n.monitor = newMonitor(MonitorOptions{Thresholds: parsed(t, DefaultThresholds()...)},
			machineOf(t, plenty, roomy))
	}
	reclaim := func(what string) func(context.Context) error {
		return func(context.Context) error {
			n.reclaimed = append(n.reclaimed, what)
			if n.afterwards != nil {
				n.afterwards()
			}
			return nil
		}
	}
	return Options{
		Monitor: n.monitor, RemoveDead: reclaim("containers"), RemoveImages: reclaim("images"),
		Gone: func(uid types.UID) bool {
			return !slices.ContainsFunc(n.pods, func(p *v1.Pod) bool { return p.UID == uid })
		},
		Pods:      func() []*v1.Pod { return n.pods },
		Stats:     func(context.Context, []*v1.Pod) (map[types.UID]podstats.Pod, error) { return n.stats, n.err },
		SoftGrace: 20,
		Evicted:   func(signal string) { n.signals = append(n.signals, signal) },
		Evict: func(pod *v1.Pod, why model.Failure, grace int64) bool {
			n.grace = grace
			if n.over[pod.UID] {
				return false
			}
			n.evicted = append(n.evicted, string(pod.UID)+": "+why.Reason+": "+why.Message)
			n.pods = slices.DeleteFunc(slices.Clone(n.pods), func(p *v1.Pod) bool { return p.UID == pod.UID })
			return true
		},
		Events: n.events, PressureChanged: func() { n.changes++ },
	}
}

// named is a pod with one container and a volume limit of 1 MiB.
func named(uid string) *v1.Pod {
	pod := withEmptyDir(modeltest.Pod(v1.RestartPolicyAlways, "app:a"), "v", "1Mi")
	pod.UID, pod.Name = types.UID(uid), uid
	return pod
}

// TestLimitsInForce: one turn evicts all pods over a limit, including static pods. Critical pods and ended pods stay.
func TestLimitsInForce(t *testing.T) {
	static, critical := named("static"), named("critical")
	static.Annotations = map[string]string{model.AnnotationConfigSource: model.SourceFile}
	critical.Spec.Priority = new(int32(2_000_000_000))
	n := &node{
		pods: []*v1.Pod{named("big"), named("small"), static, critical, named("ended"), named("huge")},
		err:  errors.New("the runtime is down"), over: map[types.UID]bool{"ended": true},
		stats: map[types.UID]podstats.Pod{},
	}
	for _, pod := range n.pods {
		n.stats[pod.UID] = podstats.Pod{Volumes: map[string]podstats.Disk{"v": {Bytes: 2 << 20}}}
	}
	n.stats["small"] = podstats.Pod{Volumes: map[string]podstats.Disk{"v": {Bytes: 1 << 20}}}
	m := New(n.options(t))
	m.synchronize(t.Context())
	const message = `Evicted: Usage of EmptyDir volume "v" exceeds the limit "1Mi".`
	want := []string{"big: " + message, "static: " + message, "huge: " + message}
	testutil.Assert(t, slices.Equal(n.evicted, want), "evicted %q, want %q", n.evicted, want)
	signals := slices.Compact(slices.Clone(n.signals))
	testutil.Assert(t, len(n.signals) == 3 && len(signals) == 1 && signals[0] == "emptydirfs.limit", "signals %v",
		n.signals)
	list := n.events.List()
	testutil.Assert(t, len(list) == 3 && list[0].InvolvedObject.Name == "big" && list[0].Reason == "Evicted" &&
		list[0].Type == v1.EventTypeWarning, "events %+v", list)
	testutil.Assert(t, len(m.spared) == 1, "spared %v", m.spared)
	n.pods = nil
	m.synchronize(t.Context())
	testutil.Assert(t, len(m.spared) == 0, "pods that are gone are kept: %v", m.spared)
}

// evictedBy returns the UIDs of evicted pods.
func (n *node) evictedBy() []string {
	var uids []string
	for _, line := range n.evicted {
		uid, _, _ := strings.Cut(line, ":")
		uids = append(uids, uid)
	}
	return uids
}

// TestMemoryPressure: each turn evicts one pod, by rank, and never a critical pod. Images and containers are not
// removed.
func TestMemoryPressure(t *testing.T) {
	critical := candidate("critical", 2_000_000_000, "")
	n := &node{
		pods:    []*v1.Pod{candidate("modest", 0, "1Gi"), candidate("greedy", 0, "1Mi"), critical},
		stats:   map[types.UID]podstats.Pod{},
		monitor: newMonitor(MonitorOptions{Thresholds: parsed(t, DefaultThresholds()...)}, machineOf(t, little, roomy)),
	}
	for _, pod := range n.pods {
		n.stats[pod.UID] = podstats.Pod{Memory: new(int64(500 << 20)),
			Containers: map[string]podstats.Container{"a": {Memory: new(int64(500 << 20))}}}
	}
	opts := n.options(t)
	evict := opts.Evict
	var why model.Failure
	opts.Evict = func(pod *v1.Pod, reason model.Failure, grace int64) bool {
		why = reason
		return evict(pod, reason, grace)
	}
	m := New(opts)
	for turn, want := range [][]string{{"greedy"}, {"greedy", "modest"}, {"greedy", "modest"}} {
		m.synchronize(t.Context())
		got := n.evictedBy()
		testutil.Assert(t, slices.Equal(got, want), "after turn %d: %q, want %q", turn, got, want)
	}
	testutil.Equal(t, n.grace, 1, "grace period below a hard threshold")
	if !why.Disruption || why.Reason != "Evicted" ||
		!strings.HasPrefix(why.Message,
			"The node was low on resource: memory. Threshold quantity: 100Mi, available: 100000") {
		t.Errorf("%+v", why)
	}
	testutil.Assert(t, len(n.reclaimed) == 0, "%q were removed for memory", n.reclaimed)
	if !slices.ContainsFunc(n.events.List(), func(e v1.Event) bool {
		return e.Reason == "EvictionThresholdMet" && e.InvolvedObject.Kind == "Node" &&
			e.Message == "Attempting to reclaim memory"
	}) {
		t.Errorf("events %+v", n.events.List())
	}
}

// TestDiskPressure: dead containers and unused images go first. If that is enough, no pod is evicted.
func TestDiskPressure(t *testing.T) {
	full := map[string]disk{"/root": {9, 50, 1000}, "/images": {50, 50, 1000}}
	for _, enough := range []bool{true, false} {
		n := &node{
			pods: []*v1.Pod{candidate("small", 0, ""), candidate("large", 0, "")},
			stats: map[types.UID]podstats.Pod{
				"small": {Volumes: map[string]podstats.Disk{"v": {Bytes: 1}}},
				"large": {Volumes: map[string]podstats.Disk{"v": {Bytes: 2}}},
			},
			monitor: newMonitor(MonitorOptions{Thresholds: parsed(t, DefaultThresholds()...)},
				machineOf(t, plenty, full)),
		}
		if enough {
			n.afterwards = func() { n.monitor.machine = machineOf(t, plenty, roomy) }
		}
		New(n.options(t)).synchronize(t.Context())
		want := []string{"containers", "images"}
		testutil.Assert(t, slices.Equal(n.reclaimed, want), "removed %q", n.reclaimed)
		if got := n.evictedBy(); enough != (len(got) == 0) || !enough && !slices.Equal(got, []string{"large"}) {
			t.Errorf("enough %v: evicted %q", enough, got)
		}
		short, err := n.monitor.Pressure(v1.NodeDiskPressure)
		testutil.Assert(t, short && err == nil, "enough %v: the condition is %v, %v", enough, short, err)
	}
}

// TestReclaim: images and containers are not removed for the pods' disk if images have their own disk.
func TestReclaim(t *testing.T) {
	for _, test := range []struct {
		low       signal
		dedicated bool
		want      bool
	}{
		{memoryAvailable, false, false}, {nodefsAvailable, false, true}, {nodefsInodesFree, false, true},
		{nodefsAvailable, true, false},
		{nodefsInodesFree, true, false}, {imagefsAvailable, true, true}, {imagefsAvailable, false, true},
		{imagefsInodesFree, true, true}, {pidAvailable, false, false}, {allocatableMemory, false, false},
	} {
		n := &node{}
		got := New(n.options(t)).reclaim(t.Context(), test.low, test.dedicated)
		testutil.Assert(t, got == test.want && (len(n.reclaimed) == 2) == test.want,
			"%s, images apart %v: %v, %q", test.low, test.dedicated, got, n.reclaimed)
	}
}

// TestWait: the next turn begins when evicted pods are gone, or after half a minute.
func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		evicted := []*v1.Pod{named("a"), named("b")}
		opts, goneAfter := (&node{}).options(t), time.Hour
		began := time.Now()
		opts.Gone = func(types.UID) bool { return time.Since(began) >= goneAfter }
		m := New(opts)
		m.wait(t.Context(), evicted)
		testutil.Equal(t, time.Since(began), cleanUp, "the wait for pods that stay")
		began, goneAfter = time.Now(), 5*time.Second/2
		m.wait(t.Context(), evicted)
		testutil.Equal(t, time.Since(began), 3*cleanUpCheck, "the wait for pods that are gone after 2.5s")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		began, goneAfter = time.Now(), time.Hour
		m.wait(ctx, evicted)
		testutil.Equal(t, time.Since(began), 0, "the wait for pods after ctx has ended")
	})
}

// TestRun: one turn per interval, until the context ends.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*interval+interval/2)
		defer cancel()
		n := &node{}
		opts, turns := n.options(t), 0
		opts.Pods = func() []*v1.Pod { turns++; return nil }
		err := New(opts).Run(ctx)
		testutil.Assert(t, err == nil && turns == 3, "%d turns: %v", turns, err)
	})
}

package eviction

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/podstats"
)

// set parses valid settings.
func set(t *testing.T, settings Settings) Thresholds {
	t.Helper()
	thresholds, err := Parse(settings)
	testutil.Must(t, err)
	return thresholds
}

// setMemory sets the free memory, in MiB, of a machine with 1000 MiB.
func (n *node) setMemory(t *testing.T, free int) {
	t.Helper()
	testutil.WriteFile(t, n.monitor.machine.meminfo,
		fmt.Sprintf("MemTotal: %d kB\nMemFree: %d kB\n", 1000<<10, free<<10))
}

// memoryNode is a node with a pod, and with thresholds of memory.
func memoryNode(t *testing.T, settings Settings) *node {
	t.Helper()
	pod := candidate("app", 0, "")
	pod.Spec.TerminationGracePeriodSeconds = new(int64(7))
	return &node{
		pods: []*v1.Pod{pod}, stats: map[types.UID]podstats.Pod{"app": {Memory: new(int64(500 << 20))}},
		monitor: newMonitor(MonitorOptions{Thresholds: set(t, settings)}, machineOf(t, plenty, roomy)),
	}
}

// TestSoftThreshold: the node's condition begins at once. The eviction begins after the grace period, and leaves the
// pod its own termination grace period.
func TestSoftThreshold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memoryNode(t, Settings{
			Soft: []string{"memory.available<300Mi"}, SoftGrace: map[string]string{"memory.available": "1m"}})
		m := New(n.options(t))
		for _, step := range []struct {
			after         time.Duration
			free          int
			short, evicts bool
		}{
			{0, 400, false, false}, {10 * time.Second, 200, true, false}, {50 * time.Second, 200, true, false},
			{5 * time.Second, 400, true, false}, // the node recovers, so the grace period begins anew
			{5 * time.Second, 200, true, false}, {59 * time.Second, 200, true, false},
			{time.Second, 200, true, true},
		} {
			time.Sleep(step.after)
			n.setMemory(t, step.free)
			m.synchronize(t.Context())
			short, err := n.monitor.Pressure(v1.NodeMemoryPressure)
			testutil.Assert(t, err == nil && short == step.short && (len(n.evicted) > 0) == step.evicts,
				"%+v: short %t, evicted %q, %v", step, short, n.evicted, err)
		}
		testutil.Equal(t, n.grace, 7, "grace period of the pod")
		testutil.Assert(t, strings.Contains(n.evicted[0], "Threshold quantity: 300Mi"), "message %q", n.evicted[0])
	})
}

func TestGraceOfSoftEvictions(t *testing.T) {
	m := New(Options{SoftGrace: 20})
	pod := candidate("app", 0, "")
	for own, want := range map[int64]int64{7: 7, 20: 20, 90: 20, 0: 1} {
		pod.Spec.TerminationGracePeriodSeconds = &own
		testutil.Equal(t, m.graceOf(threshold{soft: true}, pod), want, "grace period of a pod with %d seconds", own)
		testutil.Equal(t, m.graceOf(threshold{}, pod), 1, "grace period below a hard threshold")
	}
	pod.Spec.TerminationGracePeriodSeconds = nil
	testutil.Equal(t, m.graceOf(threshold{soft: true}, pod), 20, "grace period of a pod without its own")
}

// TestHardComesFirst: a node below both thresholds does not wait.
func TestHardComesFirst(t *testing.T) {
	n := memoryNode(t, Settings{
		Hard: []string{"memory.available<100Mi"}, Soft: []string{"memory.available<300Mi"},
		SoftGrace: map[string]string{"memory.available": "1h"},
	})
	m := New(n.options(t))
	n.setMemory(t, 200)
	m.synchronize(t.Context())
	testutil.Assert(t, len(n.evicted) == 0, "evicted within the grace period: %q", n.evicted)
	n.setMemory(t, 50)
	m.synchronize(t.Context())
	testutil.Assert(t, len(n.evicted) == 1 && n.grace == 1, "below the hard threshold: %q, %d s", n.evicted, n.grace)
}

// TestMinimumReclaim: once the node is below the threshold, it stays short until the threshold and the minimum reclaim
// together are free.
func TestMinimumReclaim(t *testing.T) {
	n := memoryNode(t, Settings{
		Hard: []string{"memory.available<100Mi"}, MinimumReclaim: map[string]string{"memory.available": "50Mi"}})
	for _, step := range []struct {
		free int
		met  bool
	}{{120, false}, {90, true}, {120, true}, {149, true}, {150, false}, {120, false}} {
		n.setMemory(t, step.free)
		found := n.monitor.look(nil)
		testutil.Equal(t, len(found.met) > 0, step.met, "short with %d MiB free", step.free)
	}
}

// TestMinimumReclaimAfterTheGracePeriod: a node that recovers within the grace period of a soft threshold is not short,
// even if less than the minimum reclaim is free.
func TestMinimumReclaimAfterTheGracePeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memoryNode(t, Settings{
			Soft: []string{"memory.available<300Mi"}, SoftGrace: map[string]string{"memory.available": "1m"},
			MinimumReclaim: map[string]string{"memory.available": "100Mi"}})
		for _, step := range []struct {
			free int
			met  bool
		}{{200, false}, {350, false}, {350, false}, {200, false}, {200, true}, {350, true}, {400, false}} {
			n.setMemory(t, step.free)
			found := n.monitor.look(nil)
			testutil.Equal(t, len(found.met) > 0, step.met, "short with %d MiB free", step.free)
			time.Sleep(time.Minute)
		}
	})
}

// TestAllocatableMemory: all pods together may use only a part of the node's memory. Above that the node is short of
// memory, even if more is free.
func TestAllocatableMemory(t *testing.T) {
	m := machineOf(t, plenty, roomy)
	m.allocatable = 300 << 20
	monitor := newMonitor(MonitorOptions{Thresholds: set(t, Settings{Hard: []string{"memory.available<100Mi"}})}, m)
	for used, met := range map[int64]bool{150: false, 200: false, 201: true, 400: true} {
		found := monitor.look(new(used << 20))
		testutil.Equal(t, len(found.met) > 0, met, "short when pods use %d MiB", used)
	}
	found := monitor.look(nil)
	testutil.Assert(t, len(found.met) == 0, "short without stats: %+v", found.met)
}

// TestProcessIDs: of the pods with the lowest priority, the one with the most processes is evicted. The node has
// PIDPressure.
func TestProcessIDs(t *testing.T) {
	n := &node{
		pods: []*v1.Pod{candidate("few", 0, ""), candidate("many", 0, ""), candidate("important", 100, "")},
		stats: map[types.UID]podstats.Pod{
			"few": {Processes: 10}, "many": {Processes: 500}, "important": {Processes: 900}},
		monitor: newMonitor(MonitorOptions{Thresholds: set(t, Settings{Hard: []string{"pid.available<10%"}})},
			machineOf(t, plenty, roomy)),
	}
	m := New(n.options(t))
	m.synchronize(t.Context())
	testutil.Assert(t, len(n.evicted) == 0, "evicted with 700 of 1000 ids free: %q", n.evicted)
	testutil.WriteFile(t, filepath.Join(n.monitor.machine.proc, "loadavg"), "0 0 0 9/950 9")
	m.synchronize(t.Context())
	testutil.Assert(t, slices.Equal(n.evictedBy(), []string{"many"}), "evicted %q", n.evicted)
	testutil.Assert(t, strings.Contains(n.evicted[0], "low on resource: pids. Threshold quantity: 100, available: 50."),
		"message %q", n.evicted[0])
	short, err := n.monitor.Pressure(v1.NodePIDPressure)
	testutil.Assert(t, short && err == nil, "the condition is %t, %v", short, err)
	testutil.Must(t, os.Remove(filepath.Join(n.monitor.machine.proc, "loadavg")))
	n.monitor.look(nil)
	_, err = n.monitor.Pressure(v1.NodePIDPressure)
	testutil.Assert(t, err != nil, "the condition is known without a count of tasks")
}

// TestMinimumReclaimOfNothing: 0 is a minimum reclaim, as in the kubelet's documentation.
func TestMinimumReclaimOfNothing(t *testing.T) {
	for _, nothing := range []string{"0Mi", "0%"} {
		got := set(t, Settings{Hard: []string{"nodefs.available<1Gi"},
			MinimumReclaim: map[string]string{"nodefs.available": nothing}})
		testutil.Equal(t, got.list[0].reclaim, amount{}, "minimum reclaim of %s", nothing)
	}
}

func TestSettingsAreRefused(t *testing.T) {
	memory := []string{"memory.available<1Gi"}
	for want, settings := range map[string]Settings{
		"the soft threshold of memory.available has no grace period": {Soft: memory},
		`"soon" of memory.available is not a duration`: {
			Soft: memory, SoftGrace: map[string]string{"memory.available": "soon"}},
		`"0s" of memory.available is not a duration above zero`: {
			Soft: memory, SoftGrace: map[string]string{"memory.available": "0s"}},
		"nodefs.available has a grace period, but no threshold for it": {
			Soft: memory, SoftGrace: map[string]string{"memory.available": "1m", "nodefs.available": "1m"}},
		"minimum reclaim of memory.available": {
			Hard: memory, MinimumReclaim: map[string]string{"memory.available": "some"}},
		"pid.available has a minimum reclaim, but no threshold for it": {
			Hard: memory, MinimumReclaim: map[string]string{"pid.available": "5%"}},
		"is not one of": {Soft: []string{"swap.available<1Gi"}},
	} {
		_, err := Parse(settings)
		testutil.Assert(t, err != nil && strings.Contains(err.Error(), want), "%+v: %v, want %q", settings, err, want)
	}
}

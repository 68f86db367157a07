package metrics

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	internalapi "k8s.io/cri-api/pkg/apis"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/podworkers"
	"github.com/criadapter/criadapter/kubelet/prober"
)

var errBroken = errors.New("broken")

// broken is a runtime whose StartContainer fails.
type broken struct{ internalapi.RuntimeService }

func (broken) StartContainer(context.Context, string) error       { return errBroken }
func (broken) StopContainer(context.Context, string, int64) error { return nil }

func TestRuntimeOperations(t *testing.T) {
	m := New("node")
	runtime := m.Runtime(broken{})
	testutil.Assert(t, errors.Is(runtime.StartContainer(t.Context(), "c"), errBroken), "the error is lost")
	testutil.Must(t, runtime.StopContainer(t.Context(), "c", 1))
	for name, want := range map[string]float64{"start_container": 1, "stop_container": 0} {
		testutil.Equal(t, value(t, m, "kubelet_runtime_operations_errors_total", name), want, "errors of %s", name)
		testutil.Equal(t, value(t, m, "kubelet_runtime_operations_total", name), 1, "calls of %s", name)
	}
}

// TestEveryCallIsMeasured: the wrappers have each method of the services that the kubelet core calls.
func TestEveryCallIsMeasured(t *testing.T) {
	unused := map[string]bool{
		"CheckpointContainer": true, "CheckpointPod": true, "RestorePod": true, "ListContainerStats": true,
		"PodSandboxStats": true, "UpdateRuntimeConfig": true, "GetContainerEvents": true, "Close": true,
	}
	m := New("node")
	for of, wrapped := range map[reflect.Type]reflect.Value{
		reflect.TypeFor[internalapi.RuntimeService]():      reflect.ValueOf(m.Runtime(nil)),
		reflect.TypeFor[internalapi.ImageManagerService](): reflect.ValueOf(m.Images(nil)),
	} {
		for i := range of.NumMethod() {
			name := of.Method(i).Name
			if unused[name] {
				continue
			}
			before := len(samples(t, m, "kubelet_runtime_operations_total"))
			call(wrapped.MethodByName(name))
			testutil.Assert(t, len(samples(t, m, "kubelet_runtime_operations_total")) == before+1, "%s is not measured",
				name)
		}
	}
}

// call calls a method of a wrapper around nil. The call panics, but only after it was counted.
func call(method reflect.Value) {
	defer func() { _ = recover() }()
	var in []reflect.Value
	for i := range method.Type().NumIn() {
		in = append(in, reflect.Zero(method.Type().In(i)))
	}
	method.Call(in)
}

// samples returns the samples of a metric.
func samples(t *testing.T, m *Metrics, name string) []*dto.Metric {
	t.Helper()
	families, err := m.Gatherer().Gather()
	testutil.Must(t, err)
	for _, family := range families {
		if family.GetName() == name {
			return family.GetMetric()
		}
	}
	return nil
}

// value returns the value of a counter with a label, or the number of observations of a histogram. It is 0 without a
// sample.
func value(t *testing.T, m *Metrics, name, label string) float64 {
	t.Helper()
	for _, sample := range samples(t, m, name) {
		if label == "" || sample.GetLabel()[0].GetValue() == label {
			return sample.GetCounter().GetValue() + float64(sample.GetHistogram().GetSampleCount())
		}
	}
	return 0
}

// steps is a pod syncer that does nothing.
type steps struct{ podworkers.PodSyncer }

func (steps) SyncPod(context.Context, *v1.Pod) (bool, time.Duration, error)             { return false, 0, nil }
func (steps) SyncTerminatingPod(context.Context, *v1.Pod, podworkers.Termination) error { return nil }
func (steps) SyncTerminatedPod(context.Context, *v1.Pod) error                          { return nil }
func (steps) Forget(types.UID)                                                          {}

// TestPodStarts: a new pod is counted once, when it runs. A pod of an earlier process is not counted.
func TestPodStarts(t *testing.T) {
	m := New("node")
	phase := v1.PodPending
	pods := m.Pods(steps{}, func(*v1.Pod) v1.PodPhase { return phase })
	fresh, old := &v1.Pod{}, &v1.Pod{Status: v1.PodStatus{Phase: v1.PodRunning}}
	fresh.UID, old.UID = "fresh", "old"
	step := func(pod *v1.Pod) {
		_, _, err := pods.SyncPod(t.Context(), pod)
		testutil.Must(t, err)
	}
	step(fresh)
	step(old)
	testutil.Equal(t, value(t, m, "kubelet_pod_start_duration_seconds", ""), 0, "starts before the pod runs")
	phase = v1.PodRunning
	step(fresh)
	step(fresh)
	step(old)
	testutil.Equal(t, value(t, m, "kubelet_pod_start_duration_seconds", ""), 1, "starts")
	testutil.Equal(t, value(t, m, "kubelet_started_pods_total", ""), 1, "pods")
	testutil.Must(t, pods.SyncTerminatingPod(t.Context(), fresh, podworkers.Termination{}))
	pods.Forget("fresh")
	step(fresh)
	testutil.Equal(t, value(t, m, "kubelet_started_pods_total", ""), 2, "started pods after a forgotten pod came again")
	testutil.Equal(t, len(samples(t, m, "kubelet_pod_worker_duration_seconds")), 3, "kinds of steps")
}

// TestOperations: operations on cgroups and mounts of volumes are measured by their labels.
func TestOperations(t *testing.T) {
	m := New("node")
	m.CgroupDone("update", time.Now())
	m.VolumeMounted("kubernetes.io/secret", time.Now(), nil)
	m.VolumeMounted("kubernetes.io/empty-dir", time.Now(), errBroken)
	testutil.Equal(t, value(t, m, "kubelet_cgroup_manager_duration_seconds", "update"), 1, "updates of cgroups")
	counts := map[string]uint64{}
	for _, sample := range samples(t, m, "storage_operation_duration_seconds") {
		var labels []string
		for _, label := range sample.GetLabel() {
			labels = append(labels, label.GetValue())
		}
		counts[strings.Join(labels, " ")] = sample.GetHistogram().GetSampleCount()
	}
	testutil.Equal(t, fmt.Sprint(counts), fmt.Sprint(map[string]uint64{
		"false volume_mount success kubernetes.io/secret":         1,
		"false volume_mount fail-unknown kubernetes.io/empty-dir": 1,
	}), "mounts")
}

// TestNames: Prometheus' linter accepts all names except kubelet_evictions, which upstream named.
func TestNames(t *testing.T) {
	m := New("node")
	m.Relisted(time.Now(), time.Now())
	m.Evicted("memory.available")
	m.CgroupDone("create", time.Now())
	m.VolumeMounted("kubernetes.io/secret", time.Now(), nil)
	families, err := m.Gatherer().Gather()
	testutil.Must(t, err)
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	testutil.Must(t, err)
	for _, problem := range problems {
		allowed := promlint.Problem{Metric: "kubelet_evictions", Text: `counter metrics should have "_total" suffix`}
		testutil.Assert(t, problem == allowed, "%+v", problem)
	}
}

// TestProbes: a pod's probes are counted and timed until the pod has ended. Failed probes are not timed.
func TestProbes(t *testing.T) {
	m := New("node")
	pods := m.Pods(steps{}, func(*v1.Pod) v1.PodPhase { return v1.PodRunning })
	ended, other := &v1.Pod{}, &v1.Pod{}
	ended.Namespace, ended.Name, ended.UID = "ns", "ended", "1"
	other.Namespace, other.Name, other.UID = "ns", "other", "2"
	for _, pod := range []*v1.Pod{ended, other} {
		for _, result := range []prober.Result{prober.Successful, prober.Failed, prober.Unknown} {
			m.Probed(pod, "c", "Liveness", result, time.Second)
		}
	}
	testutil.Equal(t, probeMetrics(t, m), "prober_probe_duration_seconds 2, prober_probe_duration_seconds 2, "+
		strings.TrimSuffix(strings.Repeat("prober_probe_total 1, ", 6), ", "), "both pods")
	testutil.Must(t, pods.SyncTerminatedPod(t.Context(), ended))
	testutil.Equal(t, probeMetrics(t, m), "prober_probe_duration_seconds 2, "+
		"prober_probe_total 1, prober_probe_total 1, prober_probe_total 1", "one has ended")
}

// probeMetrics returns the samples of probes.
func probeMetrics(t *testing.T, m *Metrics) string {
	t.Helper()
	families, err := m.Probes().Gather()
	testutil.Must(t, err)
	var text []string
	for _, family := range families {
		for _, sample := range family.GetMetric() {
			text = append(text, fmt.Sprint(family.GetName(), " ",
				sample.GetCounter().GetValue()+float64(sample.GetHistogram().GetSampleCount())))
		}
	}
	return strings.Join(text, ", ")
}

package nodeapi

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/criadapter/criadapter/internal/testutil"
	kubeletmodel "github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/kubelet/podstats"
)

// figures is a runtime with one pod, whose sandbox and container were replaced. If err is set, its calls return err.
type figures struct{ err error }

func number64(v uint64) *runtimeapi.UInt64Value { return &runtimeapi.UInt64Value{Value: v} }

func (f *figures) ListPodSandbox(context.Context, *runtimeapi.PodSandboxFilter) ([]*runtimeapi.PodSandbox, error) {
	return []*runtimeapi.PodSandbox{{Id: "new"}}, f.err
}

func (f *figures) ListPodSandboxStats(
	context.Context, *runtimeapi.PodSandboxStatsFilter,
) ([]*runtimeapi.PodSandboxStats, error) {
	if f.err != nil {
		return nil, f.err
	}
	pod := func(attempt uint32, linux *runtimeapi.LinuxPodSandboxStats) *runtimeapi.PodSandboxStats {
		return &runtimeapi.PodSandboxStats{
			Attributes: &runtimeapi.PodSandboxAttributes{
				Metadata: &runtimeapi.PodSandboxMetadata{Name: "pod", Namespace: "ns", Uid: "u", Attempt: attempt}},
			Linux: linux,
		}
	}
	container := func(attempt uint32, memory uint64) *runtimeapi.ContainerStats {
		return &runtimeapi.ContainerStats{
			Attributes: &runtimeapi.ContainerAttributes{
				Metadata: &runtimeapi.ContainerMetadata{Name: "c", Attempt: attempt},
				Labels:   map[string]string{kubeletmodel.LabelContainerName: "c"},
			},
			Cpu: &runtimeapi.CpuUsage{Timestamp: 5e9, UsageCoreNanoSeconds: number64(2_500_000_000),
				UsageNanoCores: number64(250_000_000),
				Psi: &runtimeapi.PsiStats{Full: &runtimeapi.PsiData{Total: 1, Avg10: 2, Avg60: 3, Avg300: 4},
					Some: &runtimeapi.PsiData{Total: 5}}},
			Memory:        &runtimeapi.MemoryUsage{Timestamp: 5e9, WorkingSetBytes: number64(memory)},
			WritableLayer: &runtimeapi.FilesystemUsage{UsedBytes: number64(8)},
		}
	}
	return []*runtimeapi.PodSandboxStats{
		pod(1, &runtimeapi.LinuxPodSandboxStats{
			Cpu:    &runtimeapi.CpuUsage{Timestamp: 5e9, UsageCoreNanoSeconds: number64(3_000_000_000)},
			Memory: &runtimeapi.MemoryUsage{Timestamp: 5e9, WorkingSetBytes: number64(50)},
			Network: &runtimeapi.NetworkUsage{
				DefaultInterface: &runtimeapi.NetworkInterfaceUsage{Name: "eth0", RxBytes: number64(7)},
				Interfaces:       []*runtimeapi.NetworkInterfaceUsage{{Name: "net1", TxBytes: number64(8)}}},
			Containers: []*runtimeapi.ContainerStats{container(0, 1), container(2, 42), container(1, 2)},
		}),
		pod(0, nil),
	}, nil
}

func (f *figures) ListMetricDescriptors(context.Context) ([]*runtimeapi.MetricDescriptor, error) {
	return []*runtimeapi.MetricDescriptor{
		{Name: "container_oom_events_total", Help: "Count of\nout of memory events.",
			LabelKeys: []string{"container", "image"}},
		{Name: "container_never", Help: "Nothing.", LabelKeys: []string{"container"}},
	}, f.err
}

func (f *figures) ListPodSandboxMetrics(context.Context) ([]*runtimeapi.PodSandboxMetrics, error) {
	metric := func(value uint64, labels ...string) *runtimeapi.Metric {
		return &runtimeapi.Metric{
			Name: "container_oom_events_total", MetricType: runtimeapi.MetricType_COUNTER, LabelValues: labels,
			Value: number64(value), Timestamp: 1_500_000_000,
		}
	}
	return []*runtimeapi.PodSandboxMetrics{
		{PodSandboxId: "another's", Metrics: []*runtimeapi.Metric{metric(9, "POD", "")}},
		{
			PodSandboxId: "new", Metrics: []*runtimeapi.Metric{metric(0, "POD", ""), metric(1, "too few")},
			ContainerMetrics: []*runtimeapi.ContainerMetrics{
				{Metrics: []*runtimeapi.Metric{metric(3, "c", "a\"b\\c\nd")}}},
		},
	}, f.err
}

func (f *figures) ImageFsInfo(context.Context) (*runtimeapi.ImageFsInfoResponse, error) {
	return &runtimeapi.ImageFsInfoResponse{ImageFilesystems: []*runtimeapi.FilesystemUsage{
		{Timestamp: 1, FsId: &runtimeapi.FilesystemIdentifier{Mountpoint: "/"}, UsedBytes: number64(1234),
			InodesUsed: number64(5)},
	}}, f.err
}

// figuresReader reads an endpoint that shows figures.
func figuresReader(t *testing.T, stats *figures) func(path string) (int, string) {
	started := metav1.NewTime(time.Unix(1000, 0))
	pod := &v1.Pod{
		Status: v1.PodStatus{Phase: v1.PodRunning, StartTime: &started, ContainerStatuses: []v1.ContainerStatus{
			{Name: "c",
				State: v1.ContainerState{
					Running: &v1.ContainerStateRunning{StartedAt: metav1.NewTime(time.Unix(2000, 0))}}},
		}}}
	pod.Name, pod.Namespace, pod.UID = "pod", "ns", "u"
	probes := prometheus.NewRegistry()
	promauto.With(probes).NewCounter(prometheus.CounterOpts{Name: "prober_probe_total"}).Add(4)
	return readOnly(t, Options{Reads: Reads{
		Config: Config{Node: "node", RootDir: t.TempDir()}, Pods: func() []*v1.Pod { return []*v1.Pod{pod} },
		Healthy: healthy, RuntimeErr: healthy, Stats: stats, Evented: func() bool { return false },
		Probes: probes,
	}})
}

func TestSummary(t *testing.T) {
	read := figuresReader(t, &figures{})
	decode := func(path string) statsapi.Summary {
		t.Helper()
		code, body := read(path)
		var summary statsapi.Summary
		err := json.Unmarshal([]byte(body), &summary)
		testutil.Require(t, code == http.StatusOK && err == nil, "%d, %v: %s", code, err, body)
		return summary
	}
	summary := decode("/stats/summary")
	testutil.Require(t, len(summary.Pods) == 1 && len(summary.Pods[0].Containers) == 1, "pods %+v", summary.Pods)
	pod, c := summary.Pods[0], summary.Pods[0].Containers[0]
	testutil.Assert(t, pod.PodRef.UID == "u" && *pod.Network.RxBytes == 7 && pod.StartTime.Unix() == 1000,
		"pod %+v", pod)
	other := pod.Network.Interfaces
	testutil.Assert(t, len(other) == 1 && other[0].Name == "net1" && *other[0].TxBytes == 8, "interfaces %+v", other)
	if c.Name != "c" || *c.Memory.WorkingSetBytes != 42 || *c.CPU.UsageNanoCores != 250_000_000 ||
		c.StartTime.Unix() != 2000 || *c.Rootfs.UsedBytes != 8 ||
		*c.CPU.PSI != (statsapi.PSIStats{Full: statsapi.PSIData{Total: 1, Avg10: 2, Avg60: 3, Avg300: 4},
			Some: statsapi.PSIData{Total: 5}}) || c.Memory.PSI != nil || c.IO != nil {
		t.Errorf("container %+v", c)
	}
	node := summary.Node
	testutil.Assert(t, node.NodeName == "node" && *node.CPU.UsageCoreNanoSeconds != 0 &&
		*node.Memory.WorkingSetBytes != 0 && *node.Memory.AvailableBytes != 0 &&
		*node.Memory.WorkingSetBytes <= *node.Memory.UsageBytes && node.StartTime.Unix() != 0, "node %+v, memory %+v",
		node, node.Memory)
	fs := node.Fs
	testutil.Assert(t, *fs.CapacityBytes >= *fs.AvailableBytes && *fs.CapacityBytes != 0, "file system %+v", fs)
	fs = node.Runtime.ImageFs
	testutil.Assert(t, *fs.UsedBytes == 1234 && *fs.InodesUsed == 5 && *fs.CapacityBytes != 0 &&
		node.Runtime.ContainerFs == nil, "images %+v", fs)
	if alone := decode("/stats/summary?only_cpu_and_memory=true"); alone.Node.Fs != nil ||
		alone.Pods[0].Network != nil || alone.Pods[0].Containers[0].Rootfs != nil ||
		alone.Node.Memory == nil || *alone.Pods[0].Containers[0].CPU.UsageCoreNanoSeconds != 2_500_000_000 {
		t.Errorf("processors and memory alone: %+v", alone)
	}
}

// TestDiskStats: the summary has the use of the local disk. A claim's filesystem is in the summary and in the metrics.
func TestDiskStats(t *testing.T) {
	pod := &v1.Pod{Spec: v1.PodSpec{Volumes: []v1.Volume{
		{Name: "scratch", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}},
		{Name: "data", VolumeSource: v1.VolumeSource{
			PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "claim"}}},
	}}}
	pod.Name, pod.Namespace, pod.UID = "pod", "ns", "u"
	read := readOnly(t, Options{Reads: Reads{
		Config: Config{RootDir: t.TempDir(), PodLogsDir: t.TempDir()}, Pods: func() []*v1.Pod { return []*v1.Pod{pod} },
		Healthy: healthy, RuntimeErr: healthy, Stats: &figures{}, Evented: func() bool { return false },
		ClaimPaths: func(*v1.Pod) map[string]string { return map[string]string{"data": t.TempDir()} },
		Usage: func() map[types.UID]podstats.Pod {
			return map[types.UID]podstats.Pod{"u": {
				Volumes: map[string]podstats.Disk{"scratch": {Bytes: 100, Inodes: 2}},
				Containers: map[string]podstats.Container{"c": {
					Logs: podstats.Disk{Bytes: 10, Inodes: 1}, WritableLayer: podstats.Disk{Bytes: 1, Inodes: 1}}},
			}}
		},
	}})
	_, body := read("/stats/summary")
	var summary statsapi.Summary
	testutil.Must(t, json.Unmarshal([]byte(body), &summary))
	of := summary.Pods[0]
	testutil.Require(t, len(of.VolumeStats) == 2 && of.EphemeralStorage != nil && of.Containers[0].Logs != nil, "%s",
		body)
	scratch, data := of.VolumeStats[0], of.VolumeStats[1]
	testutil.Assert(t, scratch.Name == "scratch" && *scratch.UsedBytes == 100 && *scratch.InodesUsed == 2 &&
		*scratch.CapacityBytes > 0 && scratch.PVCRef == nil, "scratch: %+v", scratch)
	testutil.Assert(t, data.Name == "data" && *data.PVCRef == (statsapi.PVCReference{Name: "claim", Namespace: "ns"}) &&
		*data.CapacityBytes >= *data.UsedBytes, "data: %+v", data)
	testutil.Equal(t, *of.Containers[0].Logs.UsedBytes, 10, "logs")
	testutil.Equal(t, *of.EphemeralStorage.UsedBytes, 111, "ephemeral storage")
	testutil.Equal(t, *of.EphemeralStorage.InodesUsed, 4, "inodes of the ephemeral storage")

	_, body = read("/metrics")
	for _, want := range []string{
		`kubelet_volume_stats_capacity_bytes{namespace="ns",persistentvolumeclaim="claim"} `,
		`volume_manager_total_volumes{plugin_name="kubernetes.io/empty-dir",state="desired_state_of_world"} 1`,
	} {
		testutil.Assert(t, strings.Contains(body, want), "no %s in\n%s", want, body)
	}
}

// families parses metrics like Prometheus.
func families(t *testing.T, text string) map[string]*dto.MetricFamily {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	read, err := parser.TextToMetricFamilies(strings.NewReader(text))
	testutil.Require(t, err == nil, "%v in\n%s", err, text)
	return read
}

// samples counts a family's samples.
func samples(family *dto.MetricFamily) int { return len(family.GetMetric()) }

func TestResourceMetrics(t *testing.T) {
	code, body := figuresReader(t, &figures{})("/metrics/resource")
	read := families(t, body)
	for _, name := range []string{
		"node_cpu_usage_seconds_total", "node_memory_working_set_bytes", "pod_cpu_usage_seconds_total",
		"pod_memory_working_set_bytes",
		"container_cpu_usage_seconds_total", "container_memory_working_set_bytes", "container_start_time_seconds",
		"scrape_error", "resource_scrape_error",
	} {
		testutil.Assert(t, code == http.StatusOK && samples(read[name]) == 1,
			"%d, %d of %s", code, samples(read[name]), name)
	}
	for _, line := range []string{
		`container_cpu_usage_seconds_total{container="c",namespace="ns",pod="pod"} 2.5 5000`,
		`container_memory_working_set_bytes{container="c",namespace="ns",pod="pod"} 42 5000`,
		`container_start_time_seconds{container="c",namespace="ns",pod="pod"} 2000`,
		`pod_cpu_usage_seconds_total{namespace="ns",pod="pod"} 3 5000`,
		"resource_scrape_error 0",
	} {
		testutil.Assert(t, strings.Contains(body, "\n"+line+"\n"), "no %s in\n%s", line, body)
	}
}

func TestRuntimeMetrics(t *testing.T) {
	stats := &figures{}
	read := figuresReader(t, stats)
	_, body := read("/metrics/cadvisor")
	found := families(t, body)
	testutil.Require(t, len(found) == 1 && samples(found["container_oom_events_total"]) == 2 &&
		found["container_oom_events_total"].GetType() == dto.MetricType_COUNTER, "%v from\n%s", found, body)
	last := found["container_oom_events_total"].GetMetric()[1]
	testutil.Assert(t, last.GetCounter().GetValue() == 3 && last.GetTimestampMs() == 1500 &&
		last.GetLabel()[1].GetValue() == "a\"b\\c\nd", "%v", last)
	_, body = read("/metrics/probes")
	probes := families(t, body)["prober_probe_total"]
	testutil.Assert(t, samples(probes) == 1 && probes.GetMetric()[0].GetCounter().GetValue() == 4, "probes\n%s", body)
	stats.err = status.Error(codes.Unimplemented, "no metrics here")
	code, body := read("/metrics/cadvisor")
	testutil.Assert(t, code == http.StatusNotFound && strings.Contains(body, "no metrics here"),
		"a runtime without: %d %s", code, body)
}

func TestNodeFigures(t *testing.T) {
	proc := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		testutil.Must(t, os.WriteFile(filepath.Join(proc, name), []byte(text), 0o644))
	}
	empty := newNodeStats(proc).stats(t.Context(), "n")
	testutil.Assert(t, empty.CPU == nil && empty.Memory == nil && empty.NodeName == "n", "without files: %+v", empty)
	write("stat", "cpu  100 20 30 4000 500 6 7 8 90 10\ncpu0 1 1 1 1 1 1 1 1 1 1\nbtime 1700000000\n")
	write("meminfo",
		"MemTotal: 1000 kB\nMemFree: 300 kB\nInactive(file): 200 kB\nAnonPages: 100 kB\nSwapTotal: 50 "+
			"kB\nSwapFree: 40 kB\nHugePages_Total: 0\n")
	write("vmstat", "pgfault 12\npgmajfault 3\n")
	n := newNodeStats(proc)
	stats := n.stats(t.Context(), "n")
	testutil.Assert(t, *stats.CPU.UsageCoreNanoSeconds == uint64(1630*time.Millisecond) &&
		stats.CPU.UsageNanoCores == nil && stats.StartTime.Unix() == 1700000000, "processors %+v", stats.CPU)
	if m := stats.Memory; *m.UsageBytes != 700<<10 || *m.WorkingSetBytes != 500<<10 || *m.AvailableBytes != 500<<10 ||
		*m.RSSBytes != 100<<10 || *m.PageFaults != 12 || *m.MajorPageFaults != 3 {
		t.Errorf("memory %+v", m)
	}
	testutil.Assert(t, *stats.Swap.SwapUsageBytes == 10<<10 && *stats.Swap.SwapAvailableBytes == 40<<10,
		"swap %+v", stats.Swap)
	start := n.last.at
	for _, step := range []struct {
		after time.Duration
		used  time.Duration
		want  uint64
	}{
		{2 * time.Second, time.Second, 500_000_000}, {12 * time.Second, 6 * time.Second, 500_000_000},
		// From now on the value covers between ten and twenty seconds.
		{22 * time.Second, 6 * time.Second, 0}, {27 * time.Second, 21 * time.Second, 1_000_000_000},
	} {
		got := n.rate(
			reading{at: start.Add(step.after), used: time.Duration(*stats.CPU.UsageCoreNanoSeconds) + step.used})
		testutil.Assert(t, got != nil && *got == step.want, "after %v: %v, want %d", step.after, got, step.want)
	}
	write("meminfo", "MemTotal: many kB\n")
	stats = n.stats(t.Context(), "n")
	testutil.Assert(t, stats.Memory == nil && stats.CPU != nil, "memory that cannot be read: %+v", stats)
}

package stats

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
)

var update = flag.Bool("update", false, "write the golden files anew")

// All metrics of a pod and its container, from both versions of cgroups, as Prometheus would write them.
func TestMetrics(t *testing.T) {
	for _, kind := range []string{v1Cgroupfs, v2Systemd} {
		t.Run(kind, func(t *testing.T) {
			n := newTestNode(t, kind)
			n.container.Status.StartedAt = time.Unix(1700000010, 0)
			n.pod.Status.StartedAt = time.Unix(1700000005, 0)
			n.cache.PutPod(n.pod)
			_, upper := newLayer(t)
			n.container.Meta.UpperDir = upper
			n.cache.PutContainer(n.container)
			n.write(t, "5000002/fd/0", "")
			n.write(t, "5000002/fd/1", "")
			testutil.Must(t, os.Symlink("socket:[4711]", filepath.Join(n.proc, "5000002", "fd", "2")))
			n.name(t, map[string]string{"253:0": "vda"})
			n.metricsOnce(t) // it starts a count of the layer
			n.layers.work.Wait()
			n.layers.mu.Lock() // fixed values instead of this machine's disk
			n.layers.layers["c1"].last.diskUsage = diskUsage{bytes: 40960, inodes: 4}
			n.layers.layers["c1"].last.filesystem = filesystem{device{253, 0}, 1 << 40, new(uint64(1 << 20)),
				new(uint64(1 << 19))}
			n.layers.mu.Unlock()

			n.compareExposition(t, "metrics-"+kind+".txt")
		})
	}
}

// compareExposition compares all metrics with a golden file in testdata.
func (n *node) compareExposition(t *testing.T, name string) {
	t.Helper()
	got := n.exposition(t)
	golden := filepath.Join("testdata", name)
	if *update {
		testutil.Must(t, os.WriteFile(golden, []byte(got), 0o644))
	}
	want, err := os.ReadFile(golden)
	testutil.Must(t, err)
	testutil.Assert(t, got == string(want), "not as in %s (-update writes it anew):\n%s", golden, got)
}

// The kernel gives the number of a removed device to the next one.
func TestNumberOfARemovedDevice(t *testing.T) {
	n := newTestNode(t, v2Systemd)
	n.cache.PutPod(n.pod)
	n.cache.PutContainer(n.container)
	for _, name := range []string{"vda", "vdb"} {
		n.name(t, map[string]string{"253:0": name})
		text := n.exposition(t)
		testutil.Assert(t, strings.Contains(text, "/dev/"+name), "no metric of %s: %s", name, text)
	}
}

func (n *node) metricsOnce(t *testing.T) []*runtimeapi.PodSandboxMetrics {
	t.Helper()
	return n.Metrics(t.Context(), n.cache.Snapshot())
}

// exposition writes the metrics as text, with a fixed word for values that always differ.
func (n *node) exposition(t *testing.T) string {
	t.Helper()
	keys := map[string][]string{}
	for _, descriptor := range n.MetricDescriptors() {
		keys[descriptor.Name] = descriptor.LabelKeys
	}
	var text strings.Builder
	add := func(title string, metrics []*runtimeapi.Metric) {
		fmt.Fprintf(&text, "# %s\n", title)
		for _, metric := range metrics {
			value := fmt.Sprint(metric.Value.Value)
			if metric.Name == "container_last_seen" {
				age := time.Now().Unix() - int64(metric.Value.Value)
				testutil.Assert(t, age >= 0 && age <= 2, "last seen %d seconds ago", age)
				value = "now"
			}
			// Prometheus refuses samples older than five minutes.
			testutil.Assert(t, metric.Timestamp == 0, "%s has time stamp %d", metric.Name, metric.Timestamp)
			var labels []string
			testutil.Require(t, len(keys[metric.Name]) == len(metric.LabelValues),
				"%s: keys %q, values %q", metric.Name, keys[metric.Name], metric.LabelValues)
			for i, key := range keys[metric.Name] {
				if metric.LabelValues[i] != "" {
					labels = append(labels, fmt.Sprintf("%s=%q", key, metric.LabelValues[i]))
				}
			}
			fmt.Fprintf(&text, "%s{%s} %s %s\n", metric.Name, strings.Join(labels, ","), value,
				strings.ToLower(metric.MetricType.String()))
		}
	}
	for _, pod := range n.metricsOnce(t) {
		add("pod "+pod.PodSandboxId, pod.Metrics)
		for _, container := range pod.ContainerMetrics {
			add("container "+container.ContainerId, container.Metrics)
		}
	}
	return text.String()
}

// The table has valid names, each once.
func TestMetricTable(t *testing.T) {
	name := regexp.MustCompile(`^container_[a-z0-9_]+$`)
	seen := map[string]bool{}
	for _, m := range metricTable() {
		descriptor := m.descriptor()
		testutil.Assert(t, name.MatchString(descriptor.Name) && !seen[descriptor.Name], "name %q", descriptor.Name)
		seen[descriptor.Name] = true
		testutil.Assert(t, strings.HasSuffix(descriptor.Help, "."), "%s: help %q", m.name, descriptor.Help)
		keys := slices.Sorted(slices.Values(descriptor.LabelKeys))
		testutil.Assert(t, len(slices.Compact(keys)) == len(descriptor.LabelKeys),
			"%s: label keys %q", m.name, descriptor.LabelKeys)
		if strings.HasSuffix(m.name, "_total") && m.kind != counter && m.name != "container_fs_inodes_total" {
			t.Errorf("%s is not a counter", m.name)
		}
		testutil.Assert(t, m.of != 0 && m.collect != nil && m.group != "", "%s is never collected", m.name)
	}
}

// The configuration narrows the metrics. Stats that no metric needs are not read.
func TestMetricGroupsAreNarrowed(t *testing.T) {
	n := newTestNode(t, v2Systemd, groupNetwork, groupOOM)
	removeEverywhere(t, n.root, "memory.current")
	names := map[string]bool{}
	for _, pod := range n.metricsOnce(t) {
		for _, metric := range pod.Metrics {
			names[metric.Name] = true
		}
		for _, container := range pod.ContainerMetrics {
			for _, metric := range container.Metrics {
				names[metric.Name] = true
			}
		}
	}
	testutil.Assert(t, names["container_oom_events_total"] && names["container_network_receive_bytes_total"] &&
		len(names) == 11, "got %v", names)
	descriptors := n.MetricDescriptors()
	testutil.Assert(t, len(descriptors) == 11, "%d descriptors", len(descriptors))
	testutil.Assert(t, !n.metrics.stats.has(statMemory|statMemoryDetail|statPressure|statProcesses|statIO) &&
		!n.metrics.disk && !n.metrics.processes, "reads more than it needs: %+v", n.metrics)
}

// Only the metrics of a missing source are left out.
func TestMetricsThatAreUnknown(t *testing.T) {
	for file, unknown := range map[string][]string{
		"pids.max": {"container_threads_max"},
		"cgroup.procs": {"container_processes", "container_file_descriptors",
			"container_sockets"},
		"tasks":                                {"container_tasks_state"},
		"memory.max_usage_in_bytes":            {"container_memory_max_usage_bytes"},
		"blkio.throttle.io_serviced_recursive": {"container_fs_reads_total", "container_fs_writes_total"},
		"blkio.throttle.io_service_bytes_recursive": {"container_fs_reads_bytes_total",
			"container_fs_writes_bytes_total", "container_fs_sector_reads_total", "container_fs_sector_writes_total",
			"container_blkio_device_usage_total"},
		"blkio.bfq.io_queued_recursive": {"container_fs_io_current"},
		"blkio.bfq.io_service_time_recursive": {"container_fs_read_seconds_total", "container_fs_write_seconds_total",
			"container_fs_io_time_seconds_total"},
		"hugetlb.2MB.max_usage_in_bytes": {"container_hugetlb_max_usage_bytes"},
		"memory.soft_limit_in_bytes":     {"container_spec_memory_reservation_limit_bytes"},
	} {
		t.Run(file, func(t *testing.T) {
			n := newTestNode(t, v1Cgroupfs)
			before := n.containerMetricNames(t)
			removeEverywhere(t, n.root, file)
			after := n.containerMetricNames(t)
			for name := range before {
				testutil.Assert(t, after[name] != slices.Contains(unknown, name),
					"metric %s is present: %v", name, after[name])
			}
			for _, name := range unknown {
				testutil.Assert(t, before[name], "metric %s was missing before", name)
			}
		})
	}
}

// Metrics of unknown settings and times are left out.
func TestMetricsOfAContainerThatIsHardlyKnown(t *testing.T) {
	n := newTestNode(t, v2Systemd)
	n.container.Status.Resources, n.container.Status.StartedAt, n.container.Meta.CreatedAt = nil, time.Time{},
		time.Time{}
	n.cache.PutContainer(n.container)
	names := n.containerMetricNames(t)
	for _, name := range []string{
		"container_start_time_seconds", "container_creation_time_seconds", "container_spec_memory_limit_bytes",
		"container_spec_memory_swap_limit_bytes",
	} {
		testutil.Assert(t, !names[name], "metric %s is sent, but its value is unknown", name)
	}
}

// A filesystem such as btrfs has no number of inodes.
func TestFilesystemWithoutInodes(t *testing.T) {
	n := newTestNode(t, v2Systemd)
	_, upper := newLayer(t)
	n.container.Meta.UpperDir = upper
	n.cache.PutContainer(n.container)
	n.metricsOnce(t)
	n.layers.work.Wait()
	n.layers.mu.Lock()
	n.layers.layers["c1"].last.filesystem.inodes, n.layers.layers["c1"].last.filesystem.freeInodes = nil, nil
	n.layers.mu.Unlock()
	names := n.containerMetricNames(t)
	testutil.Assert(t, names["container_fs_usage_bytes"] && !names["container_fs_inodes_total"] &&
		!names["container_fs_inodes_free"], "got %v", names)
}

// containerMetricNames returns the names of the only container's metrics.
func (n *node) containerMetricNames(t *testing.T) map[string]bool {
	t.Helper()
	pods := n.metricsOnce(t)
	testutil.Require(t, len(pods) == 1 && len(pods[0].ContainerMetrics) == 1, "got %v", pods)
	names := map[string]bool{}
	for _, metric := range pods[0].ContainerMetrics[0].Metrics {
		names[metric.Name] = true
	}
	return names
}

func TestNoMetrics(t *testing.T) {
	n := newTestNode(t, v2Systemd)
	var err error
	n.metrics, err = newMetricSet([]string{})
	testutil.Must(t, err)
	got := n.metricsOnce(t)
	testutil.Assert(t, len(got) == 0 && len(n.MetricDescriptors()) == 0, "got %v", got)
}

func TestUnknownMetricGroup(t *testing.T) {
	_, err := New(Options{MetricGroups: []string{"cpu", "weather"}})
	testutil.Assert(t, errdefs.IsInvalidArgument(err) && strings.Contains(err.Error(), `"weather"`) &&
		strings.Contains(err.Error(), "pressure"), "got %v", err)
}

// A container that ends while its pod is read is left out. The pod stays.
func TestMetricsOfWhatIsGone(t *testing.T) {
	n := newTestNode(t, v2Systemd)
	testutil.Must(t, os.RemoveAll(filepath.Join(n.root, "kubepods.slice", "kubepods-poda.slice", "docker-c1.scope")))
	pods := n.metricsOnce(t)
	testutil.Assert(t, len(pods) == 1 && len(pods[0].ContainerMetrics) == 0 && len(pods[0].Metrics) != 0,
		"got %v", pods)
	testutil.Must(t, os.RemoveAll(n.root))
	pods = n.metricsOnce(t)
	testutil.Assert(t, len(pods) == 0, "got %v", pods)
}

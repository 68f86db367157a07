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
)

var update = flag.Bool("update", false, "write the golden files anew")

// All metrics of a pod and its container, from both versions of cgroups, as
// Prometheus would write them.
func TestMetrics(t *testing.T) {
	for _, kind := range []string{v1Cgroupfs, v2Systemd} {
		t.Run(kind, func(t *testing.T) {
			n := newTestNode(t, kind)
			n.container.Status.StartedAt = time.Unix(1700000010, 0)
			_, upper := newLayer(t)
			n.container.Meta.UpperDir = upper
			n.mirror.PutContainer(n.container)
			n.write(t, "5000002/fd/0", "")
			n.write(t, "5000002/fd/1", "")
			must(t, os.Symlink("socket:[4711]", filepath.Join(n.proc, "5000002", "fd", "2")))
			n.devices.names[device{253, 0}] = "/dev/vda"
			n.metricsOnce(t) // has the layer counted
			n.layers.work.Wait()
			n.layers.mu.Lock() // the disk of this machine
			n.layers.layers["c1"].last.diskUsage = diskUsage{bytes: 40960, inodes: 4}
			n.layers.layers["c1"].last.filesystem = filesystem{device{253, 0}, 1 << 40, 1 << 20, 1 << 19}
			n.layers.mu.Unlock()

			got := n.exposition(t)
			golden := filepath.Join("testdata", "metrics-"+kind+".txt")
			if *update {
				must(t, os.WriteFile(golden, []byte(got), 0o644))
			}
			want, err := os.ReadFile(golden)
			must(t, err)
			if got != string(want) {
				t.Errorf("not as in %s (-update writes it anew):\n%s", golden, got)
			}
		})
	}
}

func (n *node) metricsOnce(t *testing.T) []*runtimeapi.PodSandboxMetrics {
	t.Helper()
	return n.Metrics(t.Context(), n.mirror.Snapshot())
}

// exposition writes the metrics as text, but for what is different each time.
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
				if age := time.Now().Unix() - int64(metric.Value.Value); age < 0 || age > 2 {
					t.Errorf("last seen %d seconds ago", age)
				}
				value = "now"
			}
			// Only what was counted in the background is not of this moment.
			if cached := strings.HasPrefix(metric.Name, "container_fs_") && !strings.Contains(metric.Name, "reads") &&
				!strings.Contains(metric.Name, "writes"); cached != (metric.Timestamp != 0) {
				t.Errorf("%s has time stamp %d", metric.Name, metric.Timestamp)
			}
			var labels []string
			if len(keys[metric.Name]) != len(metric.LabelValues) {
				t.Fatalf("%s: keys %q, values %q", metric.Name, keys[metric.Name], metric.LabelValues)
			}
			for i, key := range keys[metric.Name] {
				if metric.LabelValues[i] != "" {
					labels = append(labels, fmt.Sprintf("%s=%q", key, metric.LabelValues[i]))
				}
			}
			fmt.Fprintf(&text, "%s{%s} %s %s\n", metric.Name, strings.Join(labels, ","), value, strings.ToLower(metric.MetricType.String()))
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

// The table holds what Prometheus takes, each name once.
func TestMetricTable(t *testing.T) {
	name := regexp.MustCompile(`^container_[a-z0-9_]+$`)
	seen := map[string]bool{}
	for _, m := range metricTable() {
		descriptor := m.descriptor()
		if !name.MatchString(descriptor.Name) || seen[descriptor.Name] {
			t.Errorf("name %q", descriptor.Name)
		}
		seen[descriptor.Name] = true
		if !strings.HasSuffix(descriptor.Help, ".") {
			t.Errorf("%s: help %q", m.name, descriptor.Help)
		}
		keys := slices.Sorted(slices.Values(descriptor.LabelKeys))
		if len(slices.Compact(keys)) != len(descriptor.LabelKeys) {
			t.Errorf("%s: label keys %q", m.name, descriptor.LabelKeys)
		}
		if strings.HasSuffix(m.name, "_total") && m.kind != counter && m.name != "container_fs_inodes_total" {
			t.Errorf("%s is no counter", m.name)
		}
		if m.of == 0 || m.collect == nil || m.group == "" {
			t.Errorf("%s is never collected", m.name)
		}
	}
}

// A configuration narrows the metrics down, and what is not wanted is not read.
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
	if !names["container_oom_events_total"] || !names["container_network_receive_bytes_total"] || len(names) != 11 {
		t.Errorf("got %v", names)
	}
	if descriptors := n.MetricDescriptors(); len(descriptors) != 11 {
		t.Errorf("%d descriptors", len(descriptors))
	}
	if n.metrics.parts.has(partMemory|partMemoryDetail|partPressure|partProcesses|partIO) || n.metrics.disk || n.metrics.processes {
		t.Errorf("reads more than it needs: %+v", n.metrics)
	}
}

func TestNoMetrics(t *testing.T) {
	n := newTestNode(t, v2Systemd)
	var err error
	n.metrics, err = newMetricSet([]string{})
	must(t, err)
	if got := n.metricsOnce(t); len(got) != 0 || len(n.MetricDescriptors()) != 0 {
		t.Errorf("got %v", got)
	}
}

func TestUnknownMetricGroup(t *testing.T) {
	_, err := New(Options{MetricGroups: []string{"cpu", "weather"}})
	if !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), `"weather"`) || !strings.Contains(err.Error(), "pressure") {
		t.Errorf("got %v", err)
	}
}

// A container that ends while its pod is read is left out, the pod stays.
func TestMetricsOfWhatIsGone(t *testing.T) {
	n := newTestNode(t, v2Systemd)
	must(t, os.RemoveAll(filepath.Join(n.root, "kubepods.slice", "kubepods-poda.slice", "docker-c1.scope")))
	pods := n.metricsOnce(t)
	if len(pods) != 1 || len(pods[0].ContainerMetrics) != 0 || len(pods[0].Metrics) == 0 {
		t.Errorf("got %v", pods)
	}
	must(t, os.RemoveAll(n.root))
	if pods := n.metricsOnce(t); len(pods) != 0 {
		t.Errorf("got %v", pods)
	}
}

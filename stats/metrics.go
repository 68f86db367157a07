package stats

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/state"
)

// labelKeys are the label keys of every metric, as in the kubelet's /metrics/cadvisor. Values that only a container has
// are empty in metrics of a pod, as in the kubelet's.
var labelKeys = [...]string{"container", "id", "image", "name", "namespace", "pod"}

// labels are the values of labelKeys, in the same order.
type labels [len(labelKeys)]string

// subjects is a set of kinds of subjects.
type subjects uint

const (
	// ofContainer is a running container.
	ofContainer subjects = 1 << iota
	// ofPod is the cgroup of a pod that has its own.
	ofPod
	// ofNetwork is a pod's network namespace.
	ofNetwork
)

// subject is one source of metrics, with the stats that were read.
type subject struct {
	sample
	started    time.Time
	container  *state.Container // of containers
	layer      *layerUsage      // of containers, nil before the first count
	processes  *processDetail   // of containers, nil when not asked for
	interfaces []netInterface   // of networks
	devices    *deviceNames
}

// emit adds one value with the values of the metric's own keys.
type emit func(value uint64, own ...string)

// metric is a row of the table of CRI metrics.
type metric struct {
	group string
	name  string
	help  string
	kind  runtimeapi.MetricType
	// keys are the label keys in addition to labelKeys.
	keys []string
	of   subjects
	// collect emits the subject's values of the metric, and none if they are unknown.
	collect func(*subject, emit)
}

func (m metric) descriptor() *runtimeapi.MetricDescriptor {
	return &runtimeapi.MetricDescriptor{
		Name:      m.name,
		Help:      m.help,
		LabelKeys: slices.Concat(labelKeys[:], m.keys),
	}
}

// metricSet has the wanted rows of the table, and the stats to read for them.
type metricSet struct {
	table                                 []metric
	stats                                 statSet
	processes, descriptors, disk, network bool
}

// metricGroups returns the names of the groups of CRI metrics, sorted.
func metricGroups() []string {
	var names []string
	for _, m := range metricTable() {
		names = append(names, m.group)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// CheckGroups returns the error that New would return for Options.MetricGroups.
func CheckGroups(groups []string) error {
	known := metricGroups()
	for _, group := range groups {
		if !slices.Contains(known, group) {
			return fmt.Errorf("there is no group of metrics %q, only %s: %w", group, strings.Join(known, ", "),
				errdefs.ErrInvalidArgument)
		}
	}
	return nil
}

// newMetricSet returns the metrics of groups, or all if groups is nil.
func newMetricSet(groups []string) (metricSet, error) {
	if err := CheckGroups(groups); err != nil {
		return metricSet{}, err
	}
	if groups == nil {
		groups = metricGroups()
	}
	set := metricSet{
		// Without its CPU time, a container counts as gone.
		stats:       statCPUDetail,
		descriptors: slices.Contains(groups, groupDescriptors),
		processes:   slices.Contains(groups, groupProcess),
		disk:        slices.Contains(groups, groupDisk),
		network:     slices.Contains(groups, groupNetwork),
	}
	for _, m := range metricTable() {
		if slices.Contains(groups, m.group) {
			set.table = append(set.table, m)
			set.stats |= groupStats[m.group]
		}
	}
	return set, nil
}

// groupStats are the cgroup stats that a group of metrics needs.
var groupStats = map[string]statSet{
	groupMemory: statMemoryDetail, groupOOM: statOOM, groupPressure: statPressure, groupProcess: statProcesses,
	groupDiskIO: statIO, groupSpec: statReservation, groupHugetlb: statHugetlb,
}

// collect returns the metrics of a subject. They have no time stamp, which means the time of the scrape. Prometheus
// drops samples older than five minutes, and the count of a huge layer may be older.
func (set metricSet) collect(s *subject, of subjects, base labels) []*runtimeapi.Metric {
	metrics := make([]*runtimeapi.Metric, 0, len(set.table))
	for _, m := range set.table {
		if m.of&of == 0 {
			continue
		}
		m.collect(s, func(value uint64, own ...string) {
			metrics = append(metrics, &runtimeapi.Metric{
				Name:        m.name,
				MetricType:  m.kind,
				LabelValues: append(base[:len(base):len(base)], own...),
				Value:       number(value),
			})
		})
	}
	return metrics
}

// MetricDescriptors describes the CRI metrics of Metrics. They do not change.
func (c *Collector) MetricDescriptors() []*runtimeapi.MetricDescriptor {
	descriptors := make([]*runtimeapi.MetricDescriptor, 0, len(c.metrics.table))
	for _, m := range c.metrics.table {
		descriptors = append(descriptors, m.descriptor())
	}
	return descriptors
}

// Metrics returns the CRI metrics of all pods with a running sandbox. CRI values are whole numbers, so times are in
// whole seconds, rounded down.
func (c *Collector) Metrics(ctx context.Context, snapshot *state.Snapshot) []*runtimeapi.PodSandboxMetrics {
	c.forget(snapshot)
	if len(c.metrics.table) == 0 {
		return nil
	}
	podSamples := present(c.samplePods(ctx, snapshot, snapshot.Pods(), c.metrics.stats))
	if c.metrics.network {
		c.addInterfaces(ctx, podSamples)
	}
	devices := newDeviceNames(c.blockDevices)
	all := make([]*runtimeapi.PodSandboxMetrics, 0, len(podSamples))
	for _, ps := range podSamples {
		pod := &runtimeapi.PodSandboxMetrics{PodSandboxId: ps.pod.ID, Metrics: c.podMetrics(ps, devices)}
		for i, container := range ps.containers {
			if ps.samples[i].cgroup == nil {
				continue
			}
			pod.ContainerMetrics = append(pod.ContainerMetrics, &runtimeapi.ContainerMetrics{
				ContainerId: container.ID,
				Metrics:     c.containerMetrics(ps.pod, container, ps.samples[i], devices),
			})
		}
		all = append(all, pod)
	}
	return all
}

// podMetrics returns the metrics of the pod's own cgroup, if it has one, and of its network. Network metrics have the
// name of the sandbox container.
func (c *Collector) podMetrics(ps podSample, devices *deviceNames) []*runtimeapi.Metric {
	pod := ps.pod
	metadata := pod.Meta.Config.GetMetadata()
	var metrics []*runtimeapi.Metric
	if ps.ofCgroup {
		of := &subject{sample: ps.whole, started: pod.Status.StartedAt, devices: devices}
		if !ps.whole.cgroup.v2 {
			of.oom = nil // version 1 counts a kill in the container's cgroup alone
		}
		metrics = c.metrics.collect(of, ofPod, labels{
			"", ps.whole.cgroup.path, "", "", metadata.GetNamespace(), metadata.GetName(),
		})
	}
	network := &subject{sample: ps.sandbox, interfaces: ps.interfaces}
	path := ""
	switch {
	case ps.sandbox.cgroup != nil:
		path = ps.sandbox.cgroup.path
	case ps.ofCgroup:
		path = ps.whole.cgroup.path
	}
	return append(metrics, c.metrics.collect(network, ofNetwork, labels{
		"", path, pod.Meta.ImageID, pod.Meta.Name, metadata.GetNamespace(), metadata.GetName(),
	})...)
}

func (c *Collector) containerMetrics(
	pod *state.Pod, container *state.Container, found sample, devices *deviceNames,
) []*runtimeapi.Metric {
	s := &subject{sample: found, started: container.Status.StartedAt, container: container, devices: devices}
	if c.metrics.disk {
		if layer, ok := c.layers.get(container); ok {
			s.layer = &layer
		}
	}
	if c.metrics.processes || c.metrics.descriptors {
		s.processes = c.processDetail(found.cgroup, container.Status.PID)
	}
	metadata := pod.Meta.Config.GetMetadata()
	return c.metrics.collect(s, ofContainer, labels{
		container.Meta.Config.GetMetadata().GetName(), found.cgroup.path, imageName(container), container.Meta.Name,
		metadata.GetNamespace(), metadata.GetName(),
	})
}

// imageName is the image's name as the user wrote it, if known.
func imageName(container *state.Container) string {
	spec := container.Meta.Config.GetImage()
	return cmp.Or(spec.GetUserSpecifiedImage(), spec.GetImage())
}

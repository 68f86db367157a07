package stats

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/state"
)

// labelKeys are the label keys of every metric, those that the kubelet gives
// its own in /metrics/cadvisor. The values of a pod's own figures are empty
// where only a container has one, as there.
var labelKeys = [...]string{"container", "id", "image", "name", "namespace", "pod"}

// labels are the values of labelKeys, in their order.
type labels [len(labelKeys)]string

// subjects says what can have a metric.
type subjects uint

const (
	// ofContainer is a running container.
	ofContainer subjects = 1 << iota
	// ofPod is the cgroup of a pod that has one.
	ofPod
	// ofNetwork is a pod's network namespace.
	ofNetwork
)

// subject is what metrics are collected of, with all that was read of it.
type subject struct {
	look
	container  *state.Container // of containers
	layer      *layerUsage      // of containers, nil before the first count
	processes  *processDetail   // of containers, nil when not asked for
	interfaces []netInterface   // of networks
	devices    *deviceNames
}

// emit takes one value with the values of the metric's own keys.
type emit func(value uint64, own ...string)

// metric is one line of the table of CRI metrics.
type metric struct {
	group string
	name  string
	help  string
	kind  runtimeapi.MetricType
	// keys are the label keys beyond labelKeys.
	keys []string
	of   subjects
	// collect emits what the metric is of a subject; nothing where that is
	// unknown.
	collect func(*subject, emit)
}

func (m metric) descriptor() *runtimeapi.MetricDescriptor {
	return &runtimeapi.MetricDescriptor{
		Name:      m.name,
		Help:      m.help,
		LabelKeys: slices.Concat(labelKeys[:], m.keys),
	}
}

// metricSet is the part of the table that is wanted, and what to read for it
// beside the parts of cgroups.
type metricSet struct {
	table                                 []metric
	parts                                 parts
	processes, descriptors, disk, network bool
}

// MetricGroups returns the names of the groups of CRI metrics, sorted.
func MetricGroups() []string {
	var names []string
	for _, m := range metricTable() {
		names = append(names, m.group)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// newMetricSet narrows the table down to groups, nil for all.
func newMetricSet(groups []string) (metricSet, error) {
	known := MetricGroups()
	if groups == nil {
		groups = known
	}
	for _, group := range groups {
		if !slices.Contains(known, group) {
			return metricSet{}, fmt.Errorf("there is no group of metrics %q, only %s: %w", group, strings.Join(known, ", "), errdefs.ErrInvalidArgument)
		}
	}
	set := metricSet{
		// A container is there when its CPU time is.
		parts:       partCPUDetail,
		descriptors: slices.Contains(groups, groupDescriptors),
		processes:   slices.Contains(groups, groupProcess),
		disk:        slices.Contains(groups, groupDisk),
		network:     slices.Contains(groups, groupNetwork),
	}
	for _, m := range metricTable() {
		if slices.Contains(groups, m.group) {
			set.table = append(set.table, m)
			set.parts |= partsOfGroup(m.group)
		}
	}
	return set, nil
}

// partsOfGroup says what of a cgroup a group of metrics needs.
func partsOfGroup(group string) parts {
	switch group {
	case groupMemory:
		return partMemoryDetail
	case groupOOM:
		return partOOM
	case groupPressure:
		return partPressure
	case groupProcess:
		return partProcesses
	case groupDiskIO:
		return partIO
	default:
		return 0
	}
}

// collect returns the metrics that a subject has.
func (set metricSet) collect(s *subject, of subjects, base labels) []*runtimeapi.Metric {
	metrics := make([]*runtimeapi.Metric, 0, len(set.table))
	for _, m := range set.table {
		if m.of&of == 0 {
			continue
		}
		timestamp := int64(0) // read just now
		if m.group == groupDisk && s.layer != nil {
			timestamp = s.layer.taken.UnixNano()
		}
		m.collect(s, func(value uint64, own ...string) {
			metrics = append(metrics, &runtimeapi.Metric{
				Name:        m.name,
				Timestamp:   timestamp,
				MetricType:  m.kind,
				LabelValues: append(base[:len(base):len(base)], own...),
				Value:       number(value),
			})
		})
	}
	return metrics
}

// MetricDescriptors describes the CRI metrics that Metrics returns. They do not
// change.
func (c *Collector) MetricDescriptors() []*runtimeapi.MetricDescriptor {
	descriptors := make([]*runtimeapi.MetricDescriptor, 0, len(c.metrics.table))
	for _, m := range c.metrics.table {
		descriptors = append(descriptors, m.descriptor())
	}
	return descriptors
}

// Metrics returns the CRI metrics of all pods whose sandbox runs. CRI values
// are whole numbers, so times are whole seconds, rounded down.
func (c *Collector) Metrics(ctx context.Context, snapshot *state.Snapshot) []*runtimeapi.PodSandboxMetrics {
	c.forget(snapshot)
	if len(c.metrics.table) == 0 {
		return nil
	}
	views := c.lookAtPods(ctx, snapshot, snapshot.Pods(), c.metrics.parts)
	if c.metrics.network {
		c.addInterfaces(views)
	}
	all := make([]*runtimeapi.PodSandboxMetrics, 0, len(views))
	for _, view := range views {
		pod := &runtimeapi.PodSandboxMetrics{PodSandboxId: view.pod.ID, Metrics: c.podMetrics(view)}
		for i, container := range view.containers {
			if view.looks[i].group == nil {
				continue
			}
			pod.ContainerMetrics = append(pod.ContainerMetrics, &runtimeapi.ContainerMetrics{
				ContainerId: container.ID,
				Metrics:     c.containerMetrics(view.pod, container, view.looks[i]),
			})
		}
		all = append(all, pod)
	}
	return all
}

// podMetrics are those of the pod's cgroup, where it has one of its own, and
// those of its network, which bear the name of the sandbox container.
func (c *Collector) podMetrics(view podView) []*runtimeapi.Metric {
	pod := view.pod
	metadata := pod.Meta.Config.GetMetadata()
	var metrics []*runtimeapi.Metric
	if view.ofCgroup {
		of := &subject{look: view.whole, devices: c.devices}
		metrics = c.metrics.collect(of, ofPod, labels{
			"", view.whole.group.cgroup, "", "", metadata.GetNamespace(), metadata.GetName(),
		})
	}
	network := &subject{look: view.sandbox, interfaces: view.interfaces}
	return append(metrics, c.metrics.collect(network, ofNetwork, labels{
		"", view.sandbox.group.cgroup, pod.Meta.ImageID, pod.Meta.Name, metadata.GetNamespace(), metadata.GetName(),
	})...)
}

func (c *Collector) containerMetrics(pod *state.Pod, container *state.Container, found look) []*runtimeapi.Metric {
	s := &subject{look: found, container: container, devices: c.devices}
	if c.metrics.disk {
		if layer, ok := c.layers.get(container); ok {
			s.layer = &layer
		}
	}
	if c.metrics.processes || c.metrics.descriptors {
		s.processes = c.processDetail(found.group, container.Status.PID)
	}
	metadata := pod.Meta.Config.GetMetadata()
	return c.metrics.collect(s, ofContainer, labels{
		container.Meta.Config.GetMetadata().GetName(), found.group.cgroup, imageName(container), container.Meta.Name,
		metadata.GetNamespace(), metadata.GetName(),
	})
}

// imageName is the image as the user named it, where that is known.
func imageName(container *state.Container) string {
	spec := container.Meta.Config.GetImage()
	if name := spec.GetUserSpecifiedImage(); name != "" {
		return name
	}
	return spec.GetImage()
}

package stats

import (
	"context"
	"path"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/state"
)

// Pods returns the figures of those of the pods whose sandbox runs, in their
// order. One that ends meanwhile is left out. The snapshot, which must be the
// one that the pods are of, has their containers.
func (c *Collector) Pods(ctx context.Context, snapshot *state.Snapshot, pods []*state.Pod) []*runtimeapi.PodSandboxStats {
	c.forget(snapshot)
	views := c.lookAtPods(ctx, snapshot, pods, partsOfStats|partProcesses)
	c.addInterfaces(views)
	all := make([]*runtimeapi.PodSandboxStats, 0, len(views))
	for _, view := range views {
		all = append(all, c.podStats(view))
	}
	return all
}

// Pod returns the figures of one pod, zero where its sandbox does not run.
func (c *Collector) Pod(ctx context.Context, snapshot *state.Snapshot, pod *state.Pod) *runtimeapi.PodSandboxStats {
	views := c.lookAtPods(ctx, snapshot, []*state.Pod{pod}, partsOfStats|partProcesses)
	if len(views) == 0 {
		return c.podStats(podView{pod: pod, whole: nothing()})
	}
	c.addInterfaces(views)
	return c.podStats(views[0])
}

// podView is all that was found of one pod.
type podView struct {
	pod *state.Pod
	// sandbox is the sandbox container, and whole the pod with all in it.
	sandbox, whole look
	// ofCgroup says that whole is one cgroup, and not a sum.
	ofCgroup bool
	// containers run, and looks has what was found at each.
	containers []*state.Container
	looks      []look
	// interfaces are there after addInterfaces.
	interfaces []netInterface
}

// lookAtPods looks at all of the pods that run and at what is in them, in one
// go so that there is one wait at most.
func (c *Collector) lookAtPods(ctx context.Context, snapshot *state.Snapshot, pods []*state.Pod, want parts) []podView {
	var targets []target
	var views []podView
	for _, pod := range pods {
		if !pod.Status.Running {
			continue
		}
		view := podView{pod: pod, ofCgroup: hasOwnParent(pod), containers: running(snapshot.ContainersOf(pod.ID))}
		views = append(views, view)
		targets = append(targets, view.targets()...)
	}
	looks := c.lookAll(ctx, targets, want)
	present := views[:0]
	for _, view := range views {
		looks = view.take(looks)
		if view.sandbox.group != nil {
			present = append(present, view)
		}
	}
	return present
}

// targets are where to look: the sandbox, the pod's own cgroup if it has one,
// and the containers.
func (v *podView) targets() []target {
	sandbox := sandboxTarget(v.pod)
	targets := []target{sandbox}
	if v.ofCgroup {
		above := sandbox
		above.above = true
		targets = append(targets, above)
	}
	for _, container := range v.containers {
		targets = append(targets, containerTarget(container))
	}
	return targets
}

// take takes a pod's looks from the front, in the order of the targets, and
// returns the others.
func (v *podView) take(looks []look) []look {
	v.sandbox, looks = looks[0], looks[1:]
	if v.ofCgroup {
		v.whole, looks = looks[0], looks[1:]
	}
	v.looks, looks = looks[:len(v.containers)], looks[len(v.containers):]
	parent := v.pod.Meta.Config.GetLinux().GetCgroupParent()
	if !v.ofCgroup || v.whole.group == nil || path.Base(v.whole.group.cgroup) != path.Base(parent) {
		v.ofCgroup, v.whole = false, sum(v.sandbox, v.looks)
	}
	return looks
}

// hasOwnParent reports whether the client put the pod in a cgroup of its own.
func hasOwnParent(pod *state.Pod) bool {
	parent := pod.Meta.Config.GetLinux().GetCgroupParent()
	return parent != "" && path.Clean(parent) != "/"
}

func (c *Collector) addInterfaces(views []podView) {
	r := c.readers.Get().(*reader)
	defer c.readers.Put(r)
	for i := range views {
		views[i].interfaces = c.interfaces(r, views[i].pod)
	}
}

func (c *Collector) podStats(view podView) *runtimeapi.PodSandboxStats {
	config := view.pod.Meta.Config
	linux := &runtimeapi.LinuxPodSandboxStats{
		Cpu:     cpuUsage(view.whole),
		Memory:  memoryUsage(view.whole),
		Io:      ioUsage(view.whole),
		Network: networkUsage(view.interfaces),
	}
	if processes := view.whole.processes; processes != nil {
		linux.Process = &runtimeapi.ProcessUsage{
			Timestamp:    view.whole.taken.UnixNano(),
			ProcessCount: number(processes.tasks),
		}
	}
	for i, container := range view.containers {
		if view.looks[i].group != nil {
			linux.Containers = append(linux.Containers, c.containerStats(container, view.looks[i]))
		}
	}
	return &runtimeapi.PodSandboxStats{
		Attributes: &runtimeapi.PodSandboxAttributes{
			Id:          view.pod.ID,
			Metadata:    config.GetMetadata(),
			Labels:      config.GetLabels(),
			Annotations: config.GetAnnotations(),
		},
		Linux: linux,
	}
}

// networkUsage returns nil when there is no interface.
func networkUsage(interfaces []netInterface) *runtimeapi.NetworkUsage {
	if len(interfaces) == 0 {
		return nil
	}
	usage := &runtimeapi.NetworkUsage{
		Timestamp:        time.Now().UnixNano(),
		DefaultInterface: interfaceUsage(interfaces[0]),
	}
	for _, other := range interfaces[1:] {
		usage.Interfaces = append(usage.Interfaces, interfaceUsage(other))
	}
	return usage
}

func interfaceUsage(i netInterface) *runtimeapi.NetworkInterfaceUsage {
	return &runtimeapi.NetworkInterfaceUsage{
		Name:     i.name,
		RxBytes:  number(i.rx.bytes),
		RxErrors: number(i.rx.errors),
		TxBytes:  number(i.tx.bytes),
		TxErrors: number(i.tx.errors),
	}
}

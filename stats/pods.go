package stats

import (
	"context"
	"path"
	"slices"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/state"
)

// Pods returns the stats of those of the pods whose sandbox runs, in their order. One that ends meanwhile is left out.
// The snapshot, which must be the one that the pods are of, has their containers.
func (c *Collector) Pods(ctx context.Context, snapshot *state.Snapshot, pods []*state.Pod) []*runtimeapi.PodSandboxStats {
	c.forget(snapshot)
	podSamples := present(c.samplePods(ctx, snapshot, pods, criStats|statProcesses))
	c.addInterfaces(ctx, podSamples)
	all := make([]*runtimeapi.PodSandboxStats, 0, len(podSamples))
	for _, ps := range podSamples {
		all = append(all, c.podStats(ps))
	}
	return all
}

// Pod returns the stats of one pod, zero where its sandbox does not run. What a
// pod uses that runs and whose cgroup is gone or unreadable is left out.
func (c *Collector) Pod(ctx context.Context, snapshot *state.Snapshot, pod *state.Pod) *runtimeapi.PodSandboxStats {
	podSamples := c.samplePods(ctx, snapshot, []*state.Pod{pod}, criStats|statProcesses)
	if len(podSamples) == 0 {
		return c.podStats(podSample{pod: pod, whole: zeroSample()})
	}
	c.addInterfaces(ctx, podSamples)
	return c.podStats(podSamples[0])
}

// podSample is all that was read of one pod.
type podSample struct {
	pod *state.Pod
	// sandbox is the sandbox container, and whole the pod with all in it.
	sandbox, whole sample
	// bare says that there is no sandbox container.
	bare bool
	// ofCgroup says that whole is one cgroup, and not a sum.
	ofCgroup bool
	// containers run, and samples has what was read of each.
	containers []*state.Container
	samples    []sample
	// interfaces are there after addInterfaces.
	interfaces []netInterface
}

// samplePods reads all of the pods that run and what is in them, in one go so that there is one wait at most.
func (c *Collector) samplePods(ctx context.Context, snapshot *state.Snapshot, pods []*state.Pod, want statSet) []podSample {
	var targets []target
	var podSamples []podSample
	for _, pod := range pods {
		if !pod.Status.Running {
			continue
		}
		ps := podSample{
			pod: pod, bare: pod.Status.Namespaces != nil, ofCgroup: hasOwnParent(pod), containers: running(snapshot.ContainersOf(pod.ID)),
		}
		targets = append(targets, ps.targets()...)
		podSamples = append(podSamples, ps)
	}
	samples := c.sampleAll(ctx, targets, want)
	for i := range podSamples {
		samples = podSamples[i].take(samples)
	}
	return podSamples
}

// present returns the samples of those pods whose sandbox's cgroup is there, if they have one.
func present(podSamples []podSample) []podSample {
	return slices.DeleteFunc(podSamples, func(ps podSample) bool { return !ps.bare && ps.sandbox.cgroup == nil })
}

// targets are the cgroups to read: the sandbox, the pod's own cgroup if it has one, and the containers. The pod's own
// is the one above the sandbox, or above the oldest container: without any it is not read.
func (v *podSample) targets() (targets []target) {
	v.ofCgroup = v.ofCgroup && (!v.bare || len(v.containers) > 0)
	if !v.bare {
		targets = append(targets, sandboxTarget(v.pod))
	}
	if v.ofCgroup {
		parent := sandboxTarget(v.pod)
		if v.bare {
			parent = containerTarget(v.containers[len(v.containers)-1])
		}
		parent.parent = true
		targets = append(targets, parent)
	}
	for _, container := range v.containers {
		targets = append(targets, containerTarget(container))
	}
	return targets
}

// take takes a pod's samples from the front, in the order of the targets, and returns the others.
func (v *podSample) take(samples []sample) []sample {
	if v.bare {
		v.sandbox = zeroSample()
	} else {
		v.sandbox, samples = samples[0], samples[1:]
	}
	if v.ofCgroup {
		v.whole, samples = samples[0], samples[1:]
	}
	v.samples, samples = samples[:len(v.containers)], samples[len(v.containers):]
	parent := v.pod.Meta.Config.GetLinux().GetCgroupParent()
	if !v.ofCgroup || v.whole.cgroup == nil || path.Base(v.whole.cgroup.path) != path.Base(parent) {
		v.ofCgroup, v.whole = false, sample{}
		if v.bare || v.sandbox.cgroup != nil {
			v.whole = sum(v.sandbox, v.samples)
		}
	}
	return samples
}

// hasOwnParent reports whether the client put the pod in a cgroup of its own.
func hasOwnParent(pod *state.Pod) bool {
	parent := pod.Meta.Config.GetLinux().GetCgroupParent()
	return parent != "" && path.Clean(parent) != "/"
}

func (c *Collector) addInterfaces(ctx context.Context, podSamples []podSample) {
	r := c.readers.Get().(*reader)
	defer c.readers.Put(r)
	for i := range podSamples {
		podSamples[i].interfaces = c.interfaces(ctx, r, podSamples[i].pod)
	}
}

func (c *Collector) podStats(ps podSample) *runtimeapi.PodSandboxStats {
	config := ps.pod.Meta.Config
	linux := &runtimeapi.LinuxPodSandboxStats{
		Cpu:     cpuUsage(ps.whole),
		Memory:  memoryUsage(ps.whole),
		Io:      ioUsage(ps.whole),
		Network: networkUsage(ps.interfaces),
	}
	if processes := ps.whole.processes; processes != nil {
		linux.Process = &runtimeapi.ProcessUsage{
			Timestamp:    ps.whole.taken.UnixNano(),
			ProcessCount: number(processes.tasks),
		}
	}
	for i, container := range ps.containers {
		if ps.samples[i].cgroup != nil {
			linux.Containers = append(linux.Containers, c.containerStats(container, ps.samples[i]))
		}
	}
	return &runtimeapi.PodSandboxStats{
		Attributes: &runtimeapi.PodSandboxAttributes{
			Id:          ps.pod.ID,
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

package stats

import (
	"context"
	"path"
	"slices"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/state"
)

// Pods returns the stats of the pods with a running sandbox, in their order. It leaves out a pod that ends meanwhile.
// snapshot must be the one that has the pods and their containers.
func (c *Collector) Pods(
	ctx context.Context, snapshot *state.Snapshot, pods []*state.Pod,
) []*runtimeapi.PodSandboxStats {
	c.forget(snapshot)
	podSamples := present(c.samplePods(ctx, snapshot, pods, criStats|statProcesses))
	c.addInterfaces(ctx, podSamples)
	all := make([]*runtimeapi.PodSandboxStats, 0, len(podSamples))
	for _, ps := range podSamples {
		all = append(all, c.podStats(ps))
	}
	return all
}

// Pod returns the stats of one pod. Its usage is 0 if its sandbox does not run. The usage of a running pod is left out
// if its cgroup is gone or unreadable.
func (c *Collector) Pod(ctx context.Context, snapshot *state.Snapshot, pod *state.Pod) *runtimeapi.PodSandboxStats {
	podSamples := c.samplePods(ctx, snapshot, []*state.Pod{pod}, criStats|statProcesses)
	if len(podSamples) == 0 {
		return c.podStats(podSample{pod: pod, whole: zeroSample()})
	}
	c.addInterfaces(ctx, podSamples)
	return c.podStats(podSamples[0])
}

// podSample has all samples of one pod.
type podSample struct {
	pod *state.Pod
	// sandbox is the sample of the sandbox container, whole the sample of the pod.
	sandbox, whole sample
	// bare says that there is no sandbox container.
	bare bool
	// ofCgroup says that whole is the sample of one cgroup, not a sum.
	ofCgroup bool
	// containers are the running containers, and samples their samples.
	containers []*state.Container
	samples    []sample
	// interfaces are set by addInterfaces.
	interfaces []netInterface
}

// samplePods reads all running pods and their containers. It waits once at most, because it reads them together.
func (c *Collector) samplePods(
	ctx context.Context, snapshot *state.Snapshot, pods []*state.Pod, want statSet,
) []podSample {
	var targets []target
	var podSamples []podSample
	for _, pod := range pods {
		if !pod.Status.Running {
			continue
		}
		ps := podSample{
			pod: pod, bare: pod.Status.Namespaces != nil, ofCgroup: hasOwnParent(pod),
			containers: running(snapshot.ContainersOf(pod.ID)),
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

// present returns the samples of pods whose sandbox cgroup exists, or that have no sandbox container.
func present(podSamples []podSample) []podSample {
	return slices.DeleteFunc(podSamples, func(ps podSample) bool { return !ps.bare && ps.sandbox.cgroup == nil })
}

// targets returns the cgroups to read: the sandbox, the pod's own cgroup if it has one, and the containers. The pod's
// own cgroup is the parent of the sandbox, or the cgroup that the client named for a pod without a sandbox container.
func (v *podSample) targets() (targets []target) {
	if !v.bare {
		targets = append(targets, sandboxTarget(v.pod))
	}
	if v.ofCgroup {
		parent := sandboxTarget(v.pod)
		parent.parent = true
		if v.bare {
			parent.path = v.pod.Meta.Config.GetLinux().GetCgroupParent()
		}
		targets = append(targets, parent)
	}
	for _, container := range v.containers {
		targets = append(targets, containerTarget(v.pod, container))
	}
	return targets
}

// take takes the pod's samples from the front of samples, in the order of the targets. It returns the rest.
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

// hasOwnParent reports whether the client put the pod into a cgroup of its own.
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

// networkUsage returns nil without an interface.
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

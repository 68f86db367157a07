package generate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	dockerspec "github.com/moby/docker-image-spec/specs-go/v1"
	"github.com/moby/moby/api/types/container"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
)

// add adds a container to the pod.
func (p *pod) add(s *source) {
	host, config := s.container.HostConfig, s.container.Config
	image := cmp.Or(s.image.Config, &dockerspec.DockerOCIImageConfig{})
	c := v1.Container{
		Name: s.name, Image: config.Image, ImagePullPolicy: v1.PullIfNotPresent,
		TTY: config.Tty, Stdin: config.OpenStdin, StdinOnce: config.StdinOnce && config.OpenStdin,
		ReadinessProbe: probe(config.Healthcheck),
	}
	command(&c, config, image)
	for _, variable := range config.Env {
		if name, value, _ := strings.Cut(variable, "="); !slices.Contains(image.Env, variable) {
			c.Env = append(c.Env, v1.EnvVar{Name: name, Value: escapeText(value)})
		}
	}
	if config.WorkingDir != image.WorkingDir {
		c.WorkingDir = config.WorkingDir
	}
	if config.StopSignal != image.StopSignal {
		p.stopSignal(&c, config.StopSignal)
	}
	if p.Spec.HostNetwork { // with the machine's network, the engine publishes no ports
		p.leave(len(host.PortBindings) > 0, c.Name, "published ports: the pod is in the machine's network")
	} else {
		c.Ports = p.ports(c.Name, host.PortBindings)
	}
	p.user(&c, config.User, image.User)
	p.security(&c, host)
	c.Resources = p.resources(c.Name, &host.Resources)
	p.mounts(&c, s)
	p.leaveOthers(s)
	p.Spec.Containers = append(p.Spec.Containers, c)
}

// command sets the command and the arguments if they differ from the image's. In a pod, a command without arguments
// also replaces the image's arguments. Arguments alone keep the image's entrypoint.
func command(c *v1.Container, config *container.Config, image *dockerspec.DockerOCIImageConfig) {
	switch {
	case len(config.Entrypoint) == 0 && len(image.Entrypoint) > 0: // --entrypoint ""
		c.Command = escape(config.Cmd)
	case !slices.Equal(config.Entrypoint, image.Entrypoint), len(config.Cmd) == 0 && len(image.Cmd) > 0:
		c.Command, c.Args = escape(config.Entrypoint), escape(config.Cmd)
	case !slices.Equal(config.Cmd, image.Cmd):
		c.Args = escape(config.Cmd)
	}
}

// escape keeps $(NAME) from being a variable of Kubernetes, and $$ from being $.
func escape(words []string) []string {
	var escaped []string
	for _, word := range words {
		escaped = append(escaped, escapeText(word))
	}
	return escaped
}

func escapeText(text string) string { return dollars.Replace(text) }

var dollars = strings.NewReplacer("$$", "$$$$", "$(", "$$(")

func (p *pod) stopSignal(c *v1.Container, signal string) {
	if !strings.HasPrefix(signal, "SIG") {
		p.leave(true, c.Name, "the stop signal %s: Kubernetes wants a name such as SIGINT", signal)
		return
	}
	c.Lifecycle = &v1.Lifecycle{StopSignal: ptr.To(v1.Signal(signal))}
	p.Spec.OS = &v1.PodOS{Name: v1.Linux} // the API requires os for a stop signal
}

// probe returns a health check as a readiness probe: an unhealthy container goes on running, and gets no requests.
func probe(check *container.HealthConfig) *v1.Probe {
	if check == nil || len(check.Test) < 2 {
		return nil
	}
	command := check.Test[1:]
	if check.Test[0] == "CMD-SHELL" {
		command = append([]string{"/bin/sh", "-c"}, command...)
	}
	seconds := func(nanoseconds, usual int64) int32 {
		if nanoseconds == 0 {
			return int32(usual)
		}
		return int32(max(1, nanoseconds/1e9))
	}
	return &v1.Probe{
		ProbeHandler:   v1.ProbeHandler{Exec: &v1.ExecAction{Command: command}}, // a probe expands no variables
		PeriodSeconds:  seconds(int64(check.Interval), 30),
		TimeoutSeconds: seconds(int64(check.Timeout), 30), FailureThreshold: cmp.Or(int32(check.Retries), 3),
	}
}

// resources returns the limits of memory and CPU. CPU shares and the memory reservation become requests.
func (p *pod) resources(name string, r *container.Resources) v1.ResourceRequirements {
	limits, requests := v1.ResourceList{}, v1.ResourceList{}
	milli := r.NanoCPUs / 1e6
	if r.CPUQuota > 0 {
		milli = r.CPUQuota * 1000 / cmp.Or(r.CPUPeriod, 100_000) // microseconds, the kernel's default
	}
	for _, value := range []struct {
		list v1.ResourceList
		name v1.ResourceName
		set  *resource.Quantity
		has  bool
	}{
		{limits, v1.ResourceCPU, resource.NewMilliQuantity(milli, resource.DecimalSI), milli > 0},
		{limits, v1.ResourceMemory, resource.NewQuantity(r.Memory, resource.BinarySI), r.Memory > 0},
		{requests, v1.ResourceCPU, resource.NewMilliQuantity(r.CPUShares*1000/1024, resource.DecimalSI),
			r.CPUShares > 2},
		{requests, v1.ResourceMemory, resource.NewQuantity(r.MemoryReservation, resource.BinarySI),
			r.MemoryReservation > 0},
	} {
		if value.has {
			value.list[value.name] = *value.set
		}
	}
	if cpu, ok := limits[v1.ResourceCPU]; ok && cpu.Cmp(*requests.Cpu()) < 0 {
		p.leave(true, name, "CPU shares of %d: a request may not be larger than its limit", r.CPUShares)
		requests[v1.ResourceCPU] = cpu
	}
	return v1.ResourceRequirements{Limits: limits, Requests: requests}
}

// leaveOthers leaves out further settings that a pod cannot have.
func (p *pod) leaveOthers(s *source) {
	host, config := s.container.HostConfig, s.container.Config
	r, labels := &host.Resources, s.ownLabels()
	for _, setting := range []struct {
		has  bool
		text string
	}{
		{len(r.Devices)+len(r.DeviceCgroupRules) > 0,
			"devices: a pod gets them from a device plugin, or all with privileged"},
		{len(r.DeviceRequests) > 0, "GPUs: a pod gets them from a device plugin or CDI"},
		{len(r.Ulimits) > 0, "ulimits: CRI has none"},
		{ptr.Deref(r.PidsLimit, 0) > 0, "the limit of " + strconv.FormatInt(ptr.Deref(r.PidsLimit, 0), 10) +
			" processes: kubelet-core run --pod-max-pids"},
		{r.CpusetCpus+r.CpusetMems != "", "CPU and memory sets"},
		{r.BlkioWeight > 0 || len(r.BlkioWeightDevice)+len(r.BlkioDeviceReadBps)+len(r.BlkioDeviceWriteBps)+
			len(r.BlkioDeviceReadIOps)+len(r.BlkioDeviceWriteIOps) > 0, "block I/O limits and weights"},
		{r.MemorySwap > 0 && r.MemorySwap != 2*r.Memory, "the swap limit"},
		{ptr.Deref(r.MemorySwappiness, -1) >= 0, "the swappiness"}, // -1 means the kernel's default
		{ptr.Deref(r.OomKillDisable, false), "the disabled OOM killer"},
		{r.CPURealtimePeriod != 0 || r.CPURealtimeRuntime != 0, "CPU realtime limits"},
		{r.CgroupParent != "", "the cgroup parent"},
		{usesLogDriver(&host.LogConfig), "the log driver " + host.LogConfig.Type +
			" and its options: the kubelet keeps a pod's logs"},
		{host.OomScoreAdj != 0, "the OOM score: a pod's is set by its QoS class"},
		{len(host.StorageOpt) > 0, "storage options: limits.ephemeral-storage comes closest to the option size"},
		{host.UTSMode.IsHost(), "the UTS mode host"},
		{host.PidMode != "" && !host.PidMode.IsHost(), "the PID mode " + string(host.PidMode) +
			": shareProcessNamespace comes closest to it"},
		{host.IpcMode.IsContainer() || host.IpcMode.IsNone(), "the IPC mode " + string(host.IpcMode) +
			": containers of a pod share one"},
		{host.RestartPolicy.MaximumRetryCount > 0, "at most " + strconv.Itoa(host.RestartPolicy.MaximumRetryCount) +
			" restarts: a pod's restarts are not limited"},
		// The engine shows an empty list for this option, its default list without it, and null if privileged.
		{host.MaskedPaths != nil && len(host.MaskedPaths) == 0, "systempaths=unconfined: a pod needs procMount for it"},
		{host.Runtime != "" && host.Runtime != "runc", "the runtime " + host.Runtime + ": runtimeClassName names one"},
		{ptr.Deref(host.Init, false), "the init process: shareProcessNamespace reaps processes, too"},
		{config.Domainname != "", "the domain name"},
		{host.Umask != nil, fmt.Sprintf("the umask %04o: CRI has none", ptr.Deref(host.Umask, 0))},
		{len(labels) > 0, fmt.Sprintf("the labels %q: only the pod has labels", labels)},
		{len(host.Annotations) > 0, fmt.Sprintf("the annotations %q: a runtime passes on only some of a pod's",
			slices.Sorted(maps.Keys(host.Annotations)))},
		{host.CgroupnsMode != "" && host.CgroupnsMode != s.podCgroupNamespace(), "the cgroup namespace " +
			string(host.CgroupnsMode) + ": the pod gets " + string(s.podCgroupNamespace())},
	} {
		p.leave(setting.has, s.name, "%s", setting.text)
	}
}

// ownLabels returns the names of the container's labels that do not come from its image.
func (s *source) ownLabels() []string {
	own := maps.Clone(s.container.Config.Labels)
	if s.image.Config != nil {
		maps.DeleteFunc(own, func(name, value string) bool {
			inherited, ok := s.image.Config.Labels[name]
			return ok && inherited == value
		})
	}
	return slices.Sorted(maps.Keys(own))
}

// podCgroupNamespace is the mode of the cgroup namespace that CRI runtimes give to the container in a pod.
func (s *source) podCgroupNamespace() container.CgroupnsMode {
	if s.cgroupVersion < 2 || s.container.HostConfig.Privileged {
		return container.CgroupnsModeHost
	}
	return container.CgroupnsModePrivate
}

// usesLogDriver reports whether a container has another log driver than the usual json-file, or options of its driver.
func usesLogDriver(logs *container.LogConfig) bool {
	return logs.Type != "" && logs.Type != "json-file" || len(logs.Config) > 0
}

package podspec

import (
	"cmp"
	"path/filepath"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// security returns the container's security context. The container's own settings override the pod's. If neither names
// a user, the container has the image's user.
func (g *Generator) security(in ContainerInput) (*runtimeapi.LinuxContainerSecurityContext, error) {
	pod, own := podSecurity(in.Pod), containerSecurity(in.Container)
	user, err := effectiveUser(in)
	if err != nil {
		return nil, err
	}
	seccomp, err := g.seccomp(pod, own)
	if err != nil {
		return nil, err
	}
	apparmor, err := appArmor(in)
	if err != nil {
		return nil, err
	}
	masked, readOnly := procPaths(own.ProcMount)
	security := &runtimeapi.LinuxContainerSecurityContext{
		Capabilities:             capabilities(own.Capabilities),
		Privileged:               isTrue(own.Privileged),
		NamespaceOptions:         namespaces(&in.Pod.Spec),
		SelinuxOptions:           selinux(cmp.Or(own.SELinuxOptions, pod.SELinuxOptions)),
		RunAsUser:                int64Value(user.id),
		RunAsUsername:            user.name,
		RunAsGroup:               int64Value(cmp.Or(own.RunAsGroup, pod.RunAsGroup)),
		ReadonlyRootfs:           isTrue(own.ReadOnlyRootFilesystem),
		SupplementalGroups:       supplementalGroups(pod),
		SupplementalGroupsPolicy: groupsPolicy(pod),
		NoNewPrivs:               own.AllowPrivilegeEscalation != nil && !*own.AllowPrivilegeEscalation,
		MaskedPaths:              masked,
		ReadonlyPaths:            readOnly,
		Seccomp:                  seccomp,
		Apparmor:                 apparmor,
	}
	if in.TargetID != "" {
		security.NamespaceOptions.Pid, security.NamespaceOptions.TargetId = runtimeapi.NamespaceMode_TARGET, in.TargetID
	}
	//lint:ignore SA1019 runtimes from before the field Apparmor read ApparmorProfile
	security.ApparmorProfile = oldAppArmor(apparmor)
	return security, nil
}

// podSecurity and containerSecurity never return nil.
func podSecurity(pod *v1.Pod) *v1.PodSecurityContext {
	return cmp.Or(pod.Spec.SecurityContext, &v1.PodSecurityContext{})
}

func containerSecurity(c *v1.Container) *v1.SecurityContext {
	return cmp.Or(c.SecurityContext, &v1.SecurityContext{})
}

func capabilities(c *v1.Capabilities) *runtimeapi.Capability {
	if c == nil {
		return nil
	}
	out := &runtimeapi.Capability{}
	for _, name := range c.Add {
		out.AddCapabilities = append(out.AddCapabilities, string(name))
	}
	for _, name := range c.Drop {
		out.DropCapabilities = append(out.DropCapabilities, string(name))
	}
	return out
}

// procPaths returns the masked and the read-only paths. An unmasked container gets empty lists, as in the kubelet.
func procPaths(mount *v1.ProcMountType) (masked, readOnly []string) {
	if mount != nil && *mount == v1.UnmaskedProcMount {
		return []string{}, []string{}
	}
	masked = []string{
		"/proc/asound", "/proc/acpi", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats",
		"/proc/timer_list",
		"/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/sys/firmware", "/sys/devices/virtual/powercap",
	}
	masked = append(masked, throttling("/")...)
	return masked, []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
}

// throttling returns the directories of the CPUs' throttling counters. Like interrupts, these reveal the load of other
// containers. root is the directory with sys. A removed CPU leaves a gap in the numbers.
func throttling(root string) []string {
	// The only error is of an invalid pattern.
	found, _ := filepath.Glob(filepath.Join(root, "sys/devices/system/cpu/cpu[0-9]*/thermal_throttle"))
	return found
}

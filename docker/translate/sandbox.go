package translate

import (
	"cmp"
	"maps"
	"slices"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/docker"
)

const (
	// sandboxOOMScore makes the kernel spare the sandbox, since the pod ends with it. criadapter and the kubelet have
	// -999.
	sandboxOOMScore = -998
	// sandboxCPUShares is the lowest weight: a sandbox only waits.
	sandboxCPUShares = 2
	// sandboxStopSignal ends the sandbox at any moment. The first process of a PID namespace ignores SIGTERM until the
	// sandbox program runs, which is a moment after the engine's start has returned. In this moment, a stop with
	// SIGTERM would take the whole grace period. Nothing in a sandbox needs to end in order.
	sandboxStopSignal = "SIGKILL"
)

// SandboxInput has the input for a sandbox's specification. Config, Image and Features are required.
type SandboxInput struct {
	// Config is the pod as the client sent it.
	Config *runtimeapi.PodSandboxConfig
	// RuntimeHandler names the engine's OCI runtime, empty for its default.
	RuntimeHandler string
	// Image is the sandbox image, by id or reference.
	Image    string
	Features docker.Features
	// PublishPorts connects the pod to Docker's default bridge and publishes its host ports there
	// (--network-plugin=bridge). Otherwise the pod gets an empty network namespace for CNI.
	PublishPorts bool
	// ReadProfile reads seccomp profiles on the node. If ReadProfile is nil, such profiles are refused.
	ReadProfile ReadProfile
	// RootDirectory is as in ContainerInput.
	RootDirectory string
}

// Sandbox returns the container that holds a pod's namespaces. The pod's overhead and the sum of its containers'
// resources limit the cgroup above this container, see PodLimits.
//
// For a pod with a user namespace of its own, see InUserNamespace.
//
// It fails with errdefs.ErrInvalidArgument or errdefs.ErrNotImplemented, and names the field. It fails with
// errdefs.ErrFailedPrecondition for a pod on a default bridge that cannot connect pods.
func Sandbox(in SandboxInput) (docker.ContainerSpec, error) {
	if err := checkSandbox(in); err != nil {
		return docker.ContainerSpec{}, err
	}
	runtime, err := sandboxRuntime(in)
	if err != nil {
		return docker.ContainerSpec{}, err
	}
	name := SandboxName(in.Config.GetMetadata())
	id := identity{name: name, kind: LabelKindSandbox, rootDirectory: in.RootDirectory}
	labels, err := encodeLabels(id, in.Config.GetLabels(), in.Config.GetAnnotations())
	if err != nil {
		return docker.ContainerSpec{}, err
	}
	config := explicitConfig(in.Image, labels)
	config.StopSignal = sandboxStopSignal
	host := explicitHost(in.Features, runtime)
	host.LogConfig = sandboxLog()
	more := &extra{features: in.Features, runtime: runtime}
	if in.Features.RunsPodSandboxes(runtime) {
		more.note = podSandboxNote()
	}
	if err := sandboxLinux(in, config, host, more); err != nil {
		return docker.ContainerSpec{}, err
	}
	spec := docker.ContainerSpec{
		Name: name, Config: config, Host: host, Network: &network.NetworkingConfig{}, Note: more.note,
	}
	shareShim(in.Config.GetMetadata(), &spec, in.Features)
	return spec, nil
}

// sandboxRuntime returns the engine's runtime for the pod. A sandboxed runtime takes the interfaces of its network
// namespace when it boots. The engine cannot start such a runtime in a namespace that CNI has filled beforehand. The
// engine itself connects pods on the host's network and on its own bridge.
func sandboxRuntime(in SandboxInput) (string, error) {
	const field = "runtime_handler"
	runtime, err := runtimeName(field, in.RuntimeHandler, in.Features)
	if err != nil || UsesHostNetwork(in.Config) || in.PublishPorts || in.Features.JoinsCNI(runtime) {
		return runtime, err
	}
	if slices.Contains(in.Features.PodSandboxRuntimes, runtime) {
		return "", unsupported(field, "%q joins a CNI network only with the OCI runtime criadapter-oci: %s",
			runtime, cmp.Or(in.Features.OCIRuntime.Fault, "criadapter-oci is not installed (see docs/oci-runtime.md)"))
	}
	return "", unsupported(field,
		"%q takes the interfaces of its network namespace when it boots. The Docker API cannot start it in a "+
			"namespace that CNI has set up: of such runtimes, only gVisor and Kata can join a CNI network (see "+
			"docs/gvisor.md)", runtime)
}

// checkSandbox validates the fields that no later step validates.
func checkSandbox(in SandboxInput) error {
	if in.Config == nil {
		return invalid("config", "is missing")
	}
	if err := checkPodMetadata("config.metadata", in.Config.GetMetadata()); err != nil {
		return err
	}
	if in.Image == "" {
		return invalid("image", "no sandbox image was given")
	}
	if dir := in.Config.GetLogDirectory(); dir != "" {
		if _, err := absolutePath("config.log_directory", dir); err != nil {
			return err
		}
		if err := checkText("config.log_directory", dir); err != nil {
			return err
		}
	}
	if err := checkStringMaps(in.Config); err != nil {
		return err
	}
	if err := checkHostname("config.hostname", in.Config.GetHostname()); err != nil {
		return err
	}
	if err := checkDNS("config.dns_config", in.Config.GetDnsConfig()); err != nil {
		return err
	}
	limits := PodLimits{Overhead: in.Config.GetLinux().GetOverhead(), Resources: in.Config.GetLinux().GetResources()}
	if err := limits.Check("config.linux."); err != nil {
		return err
	}
	return checkPorts("config.port_mappings", in.Config.GetPortMappings())
}

// sandboxLinux sets namespaces, security and limits.
func sandboxLinux(in SandboxInput, config *container.Config, host *container.HostConfig, more *extra) error {
	linux := in.Config.GetLinux()
	sc := linux.GetSecurityContext()
	ns := sc.GetNamespaceOptions()
	const field = "config.linux.security_context"
	if err := sandboxNamespaces(field+".namespace_options", ns, host); err != nil {
		return err
	}
	if err := checkPodUsers(field+".namespace_options.userns_options", in, more); err != nil {
		return err
	}
	if err := sandboxNetwork(field+".namespace_options.network", in, config, host); err != nil {
		return err
	}
	host.CgroupnsMode = cgroupNamespace(in.Features, sc.GetPrivileged())
	user := userRequest{
		user:   sc.GetRunAsUser(),
		group:  sc.GetRunAsGroup(),
		extra:  sc.GetSupplementalGroups(),
		policy: sc.GetSupplementalGroupsPolicy(),
	}
	err := user.set(field, config, host, more)
	if err != nil {
		return err
	}
	if err = sandboxSecurity(field, in, host); err != nil {
		return err
	}
	if host.Sysctls, err = sysctls("config.linux.sysctls", linux.GetSysctls(), ns); err != nil {
		return err
	}
	maps.DeleteFunc(host.Sysctls, func(name, _ string) bool { return isInterfaceSysctl(name) })
	if host.CgroupParent, err = cgroupParent("config.linux.cgroup_parent", linux.GetCgroupParent(),
		in.Features); err != nil {
		return err
	}
	host.CPUShares = sandboxCPUShares
	host.OomScoreAdj, err = oomScore("", sandboxOOMScore, in.Features)
	return err
}

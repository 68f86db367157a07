package translate

import (
	"slices"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/docker"
)

// SandboxRef is the sandbox of a new container.
type SandboxRef struct {
	// ID is the sandbox's full id.
	ID string
	// Config is the pod's configuration.
	Config *runtimeapi.PodSandboxConfig
	// RuntimeHandler is the handler with which the pod was made.
	RuntimeHandler string
	// Runtime is the engine's runtime for RuntimeHandler at that time, empty if unknown.
	Runtime string
	// Namespaces are the namespaces of a pod without a sandbox container, nil for a pod with one.
	Namespaces *PodNamespaces
	// UserNamespace is the path of the pod's user namespace, empty for the node's.
	UserNamespace string
	// HostNetwork says that the pod uses the node's network. It is right even if Config was rebuilt from labels, which
	// do not show it.
	HostNetwork bool
	// ProcessLabel is the sandbox container's SELinux label, for containers that need it (NeedsProcessLabel). It is
	// empty if the sandbox container has none.
	ProcessLabel string
}

// held reports whether containers join the pod by notes, and so need the OCI runtime.
func (s SandboxRef) held() bool { return s.Namespaces != nil || s.UserNamespace != "" }

// runtime returns the runtime of a container of the pod. Two kinds of containers keep the pod's runtime as long as the
// engine has it, even if the engine's default runtime has changed: containers that join the pod by notes, and
// containers of a runtime that runs a pod in one sandbox.
func (s SandboxRef) runtime(features docker.Features) (name string, kept bool, err error) {
	if (s.held() || slices.Contains(features.PodSandboxRuntimes, s.Runtime)) &&
		slices.Contains(features.Runtimes, s.Runtime) {
		return s.Runtime, true, nil
	}
	name, err = runtimeName("sandbox.runtime_handler", s.RuntimeHandler, features)
	return name, false, err
}

func (s SandboxRef) usesHostNetwork() bool { return s.HostNetwork || UsesHostNetwork(s.Config) }

// ContainerInput has the input for a container's specification. Config, Sandbox, ImageID and Features are required.
type ContainerInput struct {
	// Config is the container as the client sent it.
	Config  *runtimeapi.ContainerConfig
	Sandbox SandboxRef
	// ImageID is the engine's id of the image that Config names.
	ImageID  string
	Features docker.Features
	// Files are the pod's own files.
	Files HostFiles
	// ImageSources has the source of each of ImageVolumes, by ImageVolume.Index. An image volume without a source is
	// refused.
	ImageSources map[int]ImageSource
	// EngineLogOnly makes the engine's own log file, of the driver json-file, the container's only log. Otherwise the
	// engine's log is a buffer in front of the CRI log.
	EngineLogOnly bool
	// EngineLogSize is the largest size of that buffer in bytes. Zero means 30 MB.
	EngineLogSize int64
	// ReadProfile reads seccomp profiles on the node. If ReadProfile is nil, such profiles are refused.
	ReadProfile ReadProfile
	// ReadCDI reads the specifications of CDI devices on the node. If ReadCDI is nil, only the engine can inject CDI
	// devices, see docker.Features.CDI.
	ReadCDI ReadCDI
	// RuntimeAnnotations are patterns (path.Match) of the annotations that the OCI runtime
	// gets.
	RuntimeAnnotations []string
	// Adjustable says that NRI plugins may adjust the container, which needs a note.
	Adjustable bool
	// RootDirectory marks the container as owned by the criadapter with this root directory, empty for no mark.
	RootDirectory string
}

// Container returns the specification of a pod's container. The caller must also prepare HostSources and ImageVolumes.
//
// It fails with errdefs.ErrInvalidArgument or errdefs.ErrNotImplemented, and the error names the field.
func Container(in ContainerInput) (docker.ContainerSpec, error) {
	if err := checkContainer(in); err != nil {
		return docker.ContainerSpec{}, err
	}
	runtime, kept, err := in.Sandbox.runtime(in.Features)
	if err != nil {
		return docker.ContainerSpec{}, err
	}
	// The image's runtime handler changes nothing, because an image is the same for all runtimes. An unknown runtime
	// handler is refused.
	if _, err := runtimeName("config.image.runtime_handler", in.Config.GetImage().GetRuntimeHandler(),
		in.Features); err != nil {
		return docker.ContainerSpec{}, err
	}
	id := identity{
		name:      containerName(in.Sandbox.Config.GetMetadata(), in.Config.GetMetadata()),
		kind:      LabelKindContainer,
		sandboxID: in.Sandbox.ID,

		rootDirectory: in.RootDirectory,
	}
	if in.Sandbox.Namespaces != nil {
		id.podAttempt = in.Sandbox.Config.GetMetadata().GetAttempt()
	}
	if id.logPath, err = logPath("config.log_path", in.Sandbox.Config, in.Config.GetLogPath()); err != nil {
		return docker.ContainerSpec{}, err
	}
	labels, err := encodeLabels(id, in.Config.GetLabels(), in.Config.GetAnnotations())
	if err != nil {
		return docker.ContainerSpec{}, err
	}
	config := explicitConfig(in.ImageID, labels)
	host := explicitHost(in.Features, runtime)
	host.LogConfig = containerLog(in)
	if err := process(in.Config, config); err != nil {
		return docker.ContainerSpec{}, err
	}
	more := &extra{features: in.Features, runtime: runtime, held: kept ||
		in.Sandbox.held() && runtime == in.Features.DefaultRuntime}
	if in.Features.OCIRuntime.Name != "" && slices.Contains(in.Features.PodSandboxRuntimes, runtime) {
		more.note = podContainerNote(in.Sandbox.ID)
		more.note.InSandbox = in.Features.OwnShims[runtime] == ""
	}
	if err := containerLinux(in, config, host, more); err != nil {
		return docker.ContainerSpec{}, err
	}
	if err := mounts(in, host, more); err != nil {
		return docker.ContainerSpec{}, err
	}
	if err := devices(in.Config, host); err != nil {
		return docker.ContainerSpec{}, err
	}
	if err := cdiDevices(in, config, host, more); err != nil {
		return docker.ContainerSpec{}, err
	}
	if err := runtimeAnnotations(in, host, more); err != nil {
		return docker.ContainerSpec{}, err
	}
	if err := noteLimits(resourcesField, in.Config.GetLinux().GetResources(), in.Features, more); err != nil {
		return docker.ContainerSpec{}, err
	}
	if in.Adjustable && more.offered() {
		if _, err := more.need("config", "an NRI plugin"); err != nil {
			return docker.ContainerSpec{}, err
		}
	}
	if err := moveRecursive(host, more); err != nil {
		return docker.ContainerSpec{}, err
	}
	spec := docker.ContainerSpec{
		Name: id.name, Config: config, Host: host, Network: &network.NetworkingConfig{}, Note: more.note,
	}
	shareShim(in.Sandbox.Config.GetMetadata(), &spec, in.Features)
	return spec, nil
}

func checkContainer(in ContainerInput) error {
	if in.Config == nil {
		return invalid("config", "is missing")
	}
	if err := checkContainerMetadata("config.metadata", in.Config.GetMetadata()); err != nil {
		return err
	}
	if in.ImageID == "" {
		return invalid("config.image", "is missing")
	}
	if err := checkID("pod_sandbox_id", in.Sandbox.ID); err != nil {
		return err
	}
	if in.Sandbox.Config == nil {
		return invalid("sandbox_config", "is missing")
	}
	if err := checkPodMetadata("sandbox_config.metadata", in.Sandbox.Config.GetMetadata()); err != nil {
		return err
	}
	return checkStringMaps(in.Config)
}

// containerLinux sets namespaces, user, security and limits.
func containerLinux(in ContainerInput, config *container.Config, host *container.HostConfig, more *extra) error {
	linux := in.Config.GetLinux()
	sc := linux.GetSecurityContext()
	const field = "config.linux.security_context"
	if err := containerNamespaces(field+".namespace_options", in, config, host, more); err != nil {
		return err
	}
	host.CgroupnsMode = cgroupNamespace(in.Features, sc.GetPrivileged())
	user := userRequest{
		user:     sc.GetRunAsUser(),
		username: sc.GetRunAsUsername(),
		group:    sc.GetRunAsGroup(),
		extra:    sc.GetSupplementalGroups(),
		policy:   sc.GetSupplementalGroupsPolicy(),
	}
	if err := user.set(field, config, host, more); err != nil {
		return err
	}
	if err := user.mergeImage(field+".supplemental_groups_policy", config.User, more); err != nil {
		return err
	}
	if err := containerSecurity(field, in, host, more); err != nil {
		return err
	}
	return containerLimits(in, host)
}

const resourcesField = "config.linux.resources"

func containerLimits(in ContainerInput, host *container.HostConfig) error {
	const field = resourcesField
	given := in.Config.GetLinux().GetResources()
	limits, err := resources(field, given, in.Features)
	if err != nil {
		return err
	}
	limits.OomKillDisable, limits.Ulimits = host.OomKillDisable, host.Ulimits
	limits.CgroupParent, err = cgroupParent("sandbox_config.linux.cgroup_parent",
		in.Sandbox.Config.GetLinux().GetCgroupParent(), in.Features)
	if err != nil {
		return err
	}
	host.Resources = limits
	host.OomScoreAdj, err = oomScore(field+".oom_score_adj", given.GetOomScoreAdj(), in.Features)
	return err
}

package translate

import (
	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	modeHost      = "host"
	modeNone      = "none"
	modeBridge    = "bridge"
	modeContainer = "container:"
)

// UsesHostNetwork reports whether a pod uses the node's network.
func UsesHostNetwork(config *runtimeapi.PodSandboxConfig) bool {
	return podNamespaces(config).GetNetwork() == runtimeapi.NamespaceMode_NODE
}

func podNamespaces(config *runtimeapi.PodSandboxConfig) *runtimeapi.NamespaceOption {
	return config.GetLinux().GetSecurityContext().GetNamespaceOptions()
}

// sandboxNamespaces sets the namespaces of a sandbox. Its PID and IPC namespaces are for containers that share the
// pod's. A container with its own namespaces ignores them.
func sandboxNamespaces(field string, ns *runtimeapi.NamespaceOption, host *container.HostConfig) error {
	switch ns.GetPid() {
	case runtimeapi.NamespaceMode_NODE:
		host.PidMode = modeHost
	case runtimeapi.NamespaceMode_POD, runtimeapi.NamespaceMode_CONTAINER:
		// In Docker, the empty mode is the container's own namespace, and daemon.json cannot change it.
		host.PidMode = ""
	default:
		return invalid(field+".pid", "%s is not a mode for a sandbox", ns.GetPid())
	}
	switch ns.GetIpc() {
	case runtimeapi.NamespaceMode_NODE:
		host.IpcMode = container.IPCModeHost
	case runtimeapi.NamespaceMode_POD, runtimeapi.NamespaceMode_CONTAINER:
		host.IpcMode = container.IPCModeShareable
	default:
		return invalid(field+".ipc", "%s is not a mode for a sandbox", ns.GetIpc())
	}
	if ns.GetTargetId() != "" {
		return invalid(field+".target_id", "a sandbox joins no container's namespaces")
	}
	return nil
}

// sandboxNetwork sets the network of a sandbox.
func sandboxNetwork(field string, in SandboxInput, config *container.Config, host *container.HostConfig) error {
	switch mode := podNamespaces(in.Config).GetNetwork(); mode {
	case runtimeapi.NamespaceMode_NODE:
		host.NetworkMode = modeHost
		// The node's name goes with its network, as in dockershim.
		host.UTSMode = modeHost
		return nil
	case runtimeapi.NamespaceMode_POD:
		config.Hostname = Hostname(in.Config)
	default:
		return invalid(field, "%s is not a mode for a network", mode)
	}
	if in.PublishPorts {
		if fault := in.Features.BridgeFault; fault != "" {
			return errdefs.ErrFailedPrecondition.WithMessage(fault)
		}
		host.NetworkMode = modeBridge
		config.ExposedPorts, host.PortBindings = publish(in.Config.GetPortMappings(), in.Features)
		return nil
	}
	// With the mode none alone, Docker 20.10 runs a hook that executes dockerd again, which doubles the time of a
	// start. With the network disabled, the container still has its own namespace, and CNI adds the network.
	host.NetworkMode = modeNone
	config.NetworkDisabled = true
	return nil
}

// containerNamespaces sets the namespaces of a container. The container joins its pod's network, and may ask for NODE
// only if the pod uses the node's network.
func containerNamespaces(
	field string, in ContainerInput, config *container.Config, host *container.HostConfig, more *extra,
) error {
	ns, sandbox := in.Config.GetLinux().GetSecurityContext().GetNamespaceOptions(), in.Sandbox
	switch mode := ns.GetNetwork(); {
	case mode == runtimeapi.NamespaceMode_NODE && !sandbox.usesHostNetwork():
		return invalid(field+".network", "the pod has a network of its own, which its containers share: use POD")
	case mode != runtimeapi.NamespaceMode_POD && mode != runtimeapi.NamespaceMode_NODE:
		return invalid(field+".network", "%s is not a mode for a network", mode)
	}
	if err := joinNetwork(field+".network", sandbox, config, host, more); err != nil {
		return err
	}
	if sandbox.usesHostNetwork() {
		host.UTSMode = modeHost
	}
	if err := checkOwnUsers(field, ns, sandbox); err != nil {
		return err
	}
	if err := containerPID(field, ns, sandbox, host); err != nil {
		return err
	}
	if err := containerIPC(field+".ipc", ns, sandbox, host, more); err != nil {
		return err
	}
	return joinUsers(field+".userns_options", ns.GetUsernsOptions(), sandbox, more)
}

func containerIPC(
	field string, ns *runtimeapi.NamespaceOption, sandbox SandboxRef, host *container.HostConfig, more *extra,
) error {
	switch pod := podNamespaces(sandbox.Config); {
	case ns.GetIpc() == runtimeapi.NamespaceMode_NODE,
		ns.GetIpc() == runtimeapi.NamespaceMode_POD && pod.GetIpc() == runtimeapi.NamespaceMode_NODE:
		host.IpcMode = container.IPCModeHost
	case ns.GetIpc() == runtimeapi.NamespaceMode_POD:
		return joinIPC(field, sandbox, host, more)
	case ns.GetIpc() == runtimeapi.NamespaceMode_CONTAINER:
		host.IpcMode = container.IPCModePrivate
	default:
		return invalid(field, "%s is not a mode for an IPC namespace", ns.GetIpc())
	}
	return nil
}

func containerPID(field string, ns *runtimeapi.NamespaceOption, sandbox SandboxRef, host *container.HostConfig) error {
	if ns.GetTargetId() != "" && ns.GetPid() != runtimeapi.NamespaceMode_TARGET {
		return invalid(field+".target_id", "goes with the PID mode TARGET only")
	}
	switch ns.GetPid() {
	case runtimeapi.NamespaceMode_NODE:
		host.PidMode = modeHost
	case runtimeapi.NamespaceMode_POD:
		switch pod := podNamespaces(sandbox.Config).GetPid(); {
		case pod == runtimeapi.NamespaceMode_NODE:
			host.PidMode = modeHost
		case sandbox.Namespaces != nil:
			return invalid(field+".pid",
				"the pod was made with %s and has no PID namespace to share: set pid to POD for the pod, too", pod)
		default:
			host.PidMode = container.PidMode(modeContainer + sandbox.ID)
		}
	case runtimeapi.NamespaceMode_CONTAINER:
		host.PidMode = ""
	case runtimeapi.NamespaceMode_TARGET:
		if err := checkID(field+".target_id", ns.GetTargetId()); err != nil {
			return err
		}
		host.PidMode = container.PidMode(modeContainer + ns.GetTargetId())
	default:
		return invalid(field+".pid", "%s is not a mode for a PID namespace", ns.GetPid())
	}
	return nil
}

// checkID refuses a text that is not a container id. In a mode such as container:ID, such a text could mean something
// else.
func checkID(field, id string) error {
	if id == "" {
		return invalid(field, "is empty, give a container's id")
	}
	for i := range len(id) {
		if !isAlphanumeric(id[i]) {
			return invalid(field, "%q is not a container's id", id)
		}
	}
	return nil
}

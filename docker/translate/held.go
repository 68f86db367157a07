package translate

import (
	"cmp"
	"maps"

	"github.com/moby/moby/api/types/container"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// engineSysctls are the sysctls that the engine sets in each network namespace that it makes. They let containers ping
// and open any port without privileges. In a user namespace the engine leaves pingGroups out.
var engineSysctls = map[string]string{
	pingGroups:                            "0 2147483647",
	"net.ipv4.ip_unprivileged_port_start": "0",
}

// ShmSize is the size of a pod's /dev/shm in bytes.
const ShmSize = shmSize

// KernelPod configures the namespaces of a pod without a sandbox container. IPC and UTS say whether the pod has its own
// IPC and UTS namespace. The pod has its own network namespace if UTS is true.
type KernelPod struct {
	IPC, UTS bool
	Hostname string
	Sysctls  map[string]string
	// Users are the ids of the user namespace that owns the other namespaces, nil for the node's.
	Users *Users
	// CgroupParent is the pod's cgroup as the engine names it.
	CgroupParent string
}

// WithoutContainer returns the namespaces of a pod that needs no sandbox container, and false for a pod that does:
//
//   - The containers share a PID namespace, which lives as long as its first process.
//   - Docker's own bridge connects containers only.
//   - A runtime that runs the pod in one sandbox makes this sandbox for the sandbox container.
//   - Without criadapter-oci a container can join the namespaces of containers only.
//   - With SELinux, each container would see /dev/shm with another container's label.
//
// SandboxInput.Image may be empty.
//
// It fails as Sandbox does.
func WithoutContainer(in SandboxInput) (KernelPod, bool, error) {
	in.Image = cmp.Or(in.Image, "none")
	spec, err := Sandbox(in)
	if err != nil {
		return KernelPod{}, false, err
	}
	more := &extra{features: in.Features, runtime: spec.Host.Runtime}
	ns := podNamespaces(in.Config)
	if !more.offered() || in.Features.RunsPodSandboxes(spec.Host.Runtime) || in.PublishPorts ||
		in.Features.SELinux || ns.GetPid() == runtimeapi.NamespaceMode_POD {
		return KernelPod{}, false, nil
	}
	pod := KernelPod{
		UTS:          !UsesHostNetwork(in.Config),
		IPC:          ns.GetIpc() != runtimeapi.NamespaceMode_NODE,
		Hostname:     spec.Config.Hostname,
		Sysctls:      map[string]string{},
		CgroupParent: spec.Host.CgroupParent,
		Users:        PodUsers(in.Config),
	}
	if pod.UTS {
		maps.Copy(pod.Sysctls, engineSysctls)
	}
	if in.Features.InUserNamespace { // the kernel refuses groups that the namespace does not have
		delete(pod.Sysctls, pingGroups)
	}
	if value := limitPing(in.Config); value != "" {
		pod.Sysctls[pingGroups] = value
	}
	maps.Copy(pod.Sysctls, spec.Host.Sysctls)
	return pod, true, nil
}

// PodNamespaces are the paths of the namespaces of a pod without a sandbox container. Paths are empty for the node's.
type PodNamespaces struct {
	Network, IPC, UTS string
	// Shm is the pod's /dev/shm on the node.
	Shm string
}

const shmPath = "/dev/shm"

// joinNetwork lets a container join its pod's network and host name.
func joinNetwork(
	field string, sandbox SandboxRef, config *container.Config, host *container.HostConfig, more *extra,
) error {
	if sandbox.Namespaces == nil {
		host.NetworkMode = container.NetworkMode(modeContainer + sandbox.ID)
		return nil
	}
	if sandbox.usesHostNetwork() {
		host.NetworkMode = modeHost
		return nil
	}
	if err := more.join(field, "network", sandbox.Namespaces.Network); err != nil {
		return err
	}
	if err := more.join(field, "uts", sandbox.Namespaces.UTS); err != nil {
		return err
	}
	// The engine still asks for a new network namespace, see sandboxNetwork, and for its usual sysctls in it. The note
	// replaces the namespace, and DropSysctls leaves out the sysctls.
	host.NetworkMode = modeNone
	config.NetworkDisabled = true
	config.Hostname = Hostname(sandbox.Config) // it is in $HOSTNAME, too
	more.note.Hostname = config.Hostname
	more.note.DropSysctls = true
	return nil
}

// joinIPC lets a container join its pod's IPC namespace.
func joinIPC(field string, sandbox SandboxRef, host *container.HostConfig, more *extra) error {
	if sandbox.Namespaces == nil {
		host.IpcMode = container.IpcMode(modeContainer + sandbox.ID)
		return nil
	}
	host.IpcMode = container.IPCModeNone // the engine adds no /dev/shm
	return more.join(field, "ipc", sandbox.Namespaces.IPC)
}

// shm is the pod's /dev/shm for a container that has joined its IPC namespace.
func shm(in ContainerInput, host *container.HostConfig) []bind {
	if in.Sandbox.Namespaces == nil || !host.IpcMode.IsNone() {
		return nil
	}
	return []bind{{field: "sandbox", source: in.Sandbox.Namespaces.Shm, target: shmPath}}
}

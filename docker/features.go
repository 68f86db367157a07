package docker

import (
	"context"
	"slices"
)

// Features describes the engine of one connection. It is immutable: a new connection, or a reload of daemon.json, gives
// a new value.
type Features struct {
	// ServerVersion is the engine's own version, "20.10.24".
	ServerVersion string
	// APIVersion is the negotiated API version, "1.41".
	APIVersion string
	// Process is the id of the engine's process: dockerd, also behind a proxy. It is the process that listens on the
	// engine's socket if no dockerd is found.
	Process int
	// OS and Arch are the engine's platform in GOOS and GOARCH terms.
	OS, Arch string
	// CgroupVersion is 1 or 2.
	CgroupVersion int
	// CgroupDriver is "cgroupfs", "systemd" or "none".
	CgroupDriver string
	// StorageDriver is the driver of container layers, "overlay2" or, with the
	// containerd image store, the snapshotter.
	StorageDriver string
	// ContainerdImageStore says whether containerd keeps the images. Their ids are then manifest digests instead of
	// config digests.
	ContainerdImageStore bool
	// Root is the engine's data directory, "/var/lib/docker".
	Root string
	// Runtimes are the names of the OCI runtimes, in lexical order.
	Runtimes []string
	// SandboxedRuntimes are the runtimes, DefaultRuntime included, that give a container a virtual machine or a network
	// stack of its own (Kata Containers, gVisor). These runtimes take the interfaces of the network namespace when they
	// boot. The names are in lexical order.
	SandboxedRuntimes []string
	// PodSandboxRuntimes are the SandboxedRuntimes that run all containers of a pod in one sandbox: gVisor's runsc and
	// OwnShims. They are in lexical order.
	PodSandboxRuntimes []string
	// OwnShims are the programs of PodSandboxRuntimes with a shim of their own (Kata Containers), by the runtimes'
	// names.
	OwnShims map[string]string
	// ScriptedRuntimes are the runtimes with runtimeArgs in daemon.json, in lexical order. A shell script of the engine
	// starts them with these arguments.
	ScriptedRuntimes []string
	// RecursiveReadOnly are the runtimes that make a mount read-only with all mounts below it. It is empty if the
	// engine or the kernel cannot make such mounts.
	RecursiveReadOnly []string
	// OCIRuntime is the runtime that reads ContainerSpec.Note.
	OCIRuntime OCIRuntime
	// DefaultRuntime is the runtime of containers without one.
	DefaultRuntime string
	LiveRestore    bool
	// Seccomp, AppArmor, SELinux, userNSRemap and rootless repeat the engine's security options.
	Seccomp, AppArmor, SELinux, userNSRemap, rootless bool
	// SeccompProfile is the profile of containers without one: empty for the engine's own, "unconfined", or the path of
	// a file.
	SeccompProfile string
	// BridgeAddress is the host's address at which the default bridge publishes ports without an address ("ip" in
	// daemon.json). It is empty for all addresses, and without Options.Bridge.
	BridgeAddress string
	// BridgeIPv6 says that the default bridge gives containers IPv6 addresses, too. It is false without Options.Bridge.
	BridgeIPv6 bool
	// BridgeFault says why the default bridge cannot connect pods. It is empty if the bridge can, and without
	// Options.Bridge.
	BridgeFault string
	// CDI says whether the engine injects CDI devices.
	CDI bool
	// NoCheckpoint says what the engine lacks to checkpoint and restore containers. It is empty if the engine lacks
	// nothing.
	NoCheckpoint string
	// HugePages are the sizes of huge pages ("2MB") that the controller hugetlb limits on this node, in lexical order.
	HugePages []string
	// SwapLimit says whether the engine can limit swap.
	SwapLimit bool
	// NegativeOOMScore says whether containers can get a negative
	// oom_score_adj. It is false when the engine lacks CAP_SYS_RESOURCE.
	NegativeOOMScore bool
	// InUserNamespace says that the engine, and so the node, is in a user namespace that does not map all ids.
	InUserNamespace bool
	// Limits are the resource limits of the engine's own process, which its containers inherit, in lexical order of
	// their names. Without CAP_SYS_RESOURCE, no container can get a higher hard limit.
	Limits []Limit
	// MaxOpenFiles is the highest limit of open files that the kernel allows any process (fs.nr_open), 0 if unknown.
	MaxOpenFiles int64
}

// LegacyHandler is the runtime handler under which dockershim and cri-dockerd
// offer the engine's default runtime.
const LegacyHandler = "docker"

// Runtime returns the OCI runtime that a CRI runtime handler stands for, and
// whether the engine has it.
func (f Features) Runtime(handler string) (string, bool) {
	switch {
	case slices.Contains(f.Runtimes, handler):
		return handler, true
	case handler == "", handler == LegacyHandler:
		return f.DefaultRuntime, true
	default:
		return "", false
	}
}

// RunsPodSandboxes reports whether the runtime runs each pod in one sandbox. criadapter-oci makes that possible: it
// starts the sandbox in a network namespace that is ready, and waits for the containers in it.
func (f Features) RunsPodSandboxes(runtime string) bool {
	return f.OCIRuntime.Works() && slices.Contains(f.PodSandboxRuntimes, runtime)
}

// JoinsCNI reports whether pods of the runtime can join a CNI network.
func (f Features) JoinsCNI(runtime string) bool {
	return !slices.Contains(f.SandboxedRuntimes, runtime) || f.RunsPodSandboxes(runtime)
}

// MissingProgramCode is the exit code of an exec whose program is missing: 127 as in shells, and 126 before Docker
// Engine 28.0.
func (f Features) MissingProgramCode() int {
	if versionLess(f.ServerVersion, "28.0") {
		return 126
	}
	return 127
}

// CheckCheckpoint fails with ErrFailedPrecondition if engine cannot checkpoint and restore containers. The error says
// what is missing.
func CheckCheckpoint(ctx context.Context, engine System) error {
	features, err := engine.Features(ctx)
	if err != nil || features.NoCheckpoint == "" {
		return err
	}
	return refusal("containers cannot be checkpointed or restored here, the node lacks: %s", features.NoCheckpoint)
}

// Supports reports whether the negotiated API version is at least the given
// one ("1.44"). It compares the numbers, not the text.
func (f Features) Supports(apiVersion string) bool {
	return !versionLess(f.APIVersion, apiVersion)
}

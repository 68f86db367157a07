package ocinote

import "encoding/json"

// version is the version of the notes' format. Notes of another version are refused. criadapter and criadapter-oci are
// installed together, but a note may be older than both.
const version = 1

// Note has the changes to an OCI configuration that the engine wrote. The zero value changes nothing. Its parts have
// the names, units and meanings of the OCI runtime specification, 1.2.
type Note struct {
	// Engine is the id of the container's engine.
	Engine string `json:"engine,omitempty"`
	// EngineRoot is the engine's data directory.
	EngineRoot string `json:"engineRoot,omitempty"`
	// Runtime is the container's real runtime. It stays the same for the container's whole life, because another
	// runtime would not know the container.
	Runtime Runtime `json:"runtime,omitzero"`
	// InSandbox says that the container runs in its pod's sandbox, a process of the runtime. The container then has no
	// process of its own on the node. criadapter-oci makes a process that ends with the container, so that the engine
	// can wait for it.
	InSandbox bool `json:"inSandbox,omitempty"`
	// Namespaces are the paths of the namespaces to join. All other namespaces stay as the engine wrote them. The keys
	// are the specification's: network, ipc, uts, pid, user, cgroup, time.
	Namespaces map[string]string `json:"namespaces,omitempty"`
	// UIDMappings and GIDMappings are the mappings of the user namespace. For a joined namespace, they must be that
	// namespace's own mappings.
	UIDMappings []IDMapping `json:"uidMappings,omitempty"`
	GIDMappings []IDMapping `json:"gidMappings,omitempty"`
	// Hostname is set in the container's UTS namespace.
	Hostname string `json:"hostname,omitempty"`
	// DropSysctls removes the engine's sysctls: they are for a joined namespace, whose owner has set them.
	DropSysctls bool `json:"dropSysctls,omitempty"`
	// Sysctls are added to the engine's, or replace them.
	Sysctls map[string]string `json:"sysctls,omitempty"`
	// Mounts are added, or replace the mount at the same destination.
	Mounts []Mount `json:"mounts,omitempty"`
	// MountOptions are added to the options of the mount at each destination, which must exist.
	MountOptions map[string][]string `json:"mountOptions,omitempty"`
	// MappedMounts are the destinations of bind mounts whose owners are mapped into the joined user namespace. The
	// configuration must have a mount at each of them.
	MappedMounts []string `json:"mappedMounts,omitempty"`
	// Process changes the container's own process and each process of an exec.
	Process Process `json:"process,omitzero"`
	// Unified are keys of cgroup v2 and their values.
	Unified map[string]string `json:"unified,omitempty"`
	// HugepageLimits are in bytes, by page size ("2MB").
	HugepageLimits map[string]uint64 `json:"hugepageLimits,omitempty"`
	// Annotations are for the runtime.
	Annotations map[string]string `json:"annotations,omitempty"`
	// Devices are made and allowed.
	Devices []Device `json:"devices,omitempty"`
	// Hooks run after the engine's hooks. The keys are the specification's: createRuntime, createContainer,
	// startContainer, poststart, poststop, prestart.
	Hooks map[string][]Hook `json:"hooks,omitempty"`
	// Seccomp are raw fields to set in linux.seccomp, which must exist.
	Seccomp map[string]json.RawMessage `json:"seccomp,omitempty"`
	// IntelRDT replaces linux.intelRdt. Empty leaves the engine's value.
	IntelRDT json.RawMessage `json:"intelRdt,omitempty"`
	// Plugins has the changes of NRI plugins, nil for none.
	Plugins *Adjustment `json:"plugins,omitempty"`
}

// Process has the changes to a container's own process and to each process of an exec.
type Process struct {
	// Groups are all supplementary groups. The user's own group is added, as other runtimes do. Nil leaves the engine's
	// groups.
	Groups *[]uint32 `json:"groups,omitempty"`
	// AddGroups are added to the supplementary groups.
	AddGroups []uint32 `json:"addGroups,omitempty"`
	// GroupsOf is a user of the image, by name or id. At the container's first start, criadapter-oci looks up the
	// user's groups in the container's files. It saves them as AddGroups, and clears GroupsOf.
	GroupsOf string `json:"groupsOf,omitempty"`
	// Ambient are capabilities ("CAP_NET_RAW") for a process that is not root. They must be in the bounding set.
	Ambient []string `json:"ambient,omitempty"`
}

// IDMapping maps Size ids from ContainerID to HostID.
type IDMapping struct {
	ContainerID uint32 `json:"containerID"`
	HostID      uint32 `json:"hostID"`
	Size        uint32 `json:"size"`
}

// Mount is a mount of the OCI configuration.
type Mount struct {
	Destination string   `json:"destination"`
	Type        string   `json:"type,omitempty"`
	Source      string   `json:"source,omitempty"`
	Options     []string `json:"options,omitempty"`
}

// Device is a device node and the access that the cgroup allows ("rwm"). An empty Access allows none.
type Device struct {
	Path   string `json:"path"`
	Type   string `json:"type"`
	Major  int64  `json:"major"`
	Minor  int64  `json:"minor"`
	Access string `json:"access,omitempty"`
	// FileMode is the mode of the device node. Nil means the runtime's default.
	FileMode *uint32 `json:"fileMode,omitempty"`
	// UID and GID own the device node. Nil means the container's user and group.
	UID *uint32 `json:"uid,omitempty"`
	GID *uint32 `json:"gid,omitempty"`
}

// Hook is a program of the host, run by the runtime. Its timeout is in seconds.
type Hook struct {
	Path    string   `json:"path"`
	Args    []string `json:"args,omitempty"`
	Env     []string `json:"env,omitempty"`
	Timeout *int     `json:"timeout,omitempty"`
}

package checkpoint

import (
	"encoding/json"
	"time"
)

// schemaVersion is the version of Record's layout that this build writes. Each change of Record raises it, see the
// package comment.
const schemaVersion = 3

// Phase says how far the set-up of a pod had come when its record was written.
type Phase string

const (
	// PhaseIntent means that the sandbox container exists and that CNI ADD may
	// have run: start-up must undo or finish the pod.
	PhaseIntent Phase = "intent"
	// PhaseReady means that the pod's set-up was complete.
	PhaseReady Phase = "ready"
	// PhaseStopped means that CNI DEL has succeeded and that the pod holds no
	// address any more; only the removal is left.
	PhaseStopped Phase = "stopped"
)

// Record is what must survive a crash of one pod and what Docker Engine cannot keep. The engine stays the truth for
// what runs, the container labels carry the CRI metadata.
type Record struct {
	// SandboxID is the record's key: the engine's full container id of the sandbox, or where Namespaces is set one of
	// its form.
	SandboxID string `json:"sandboxID"`
	// Name, Namespace, UID and Attempt repeat the pod's metadata for a human
	// reader and for CNI DEL after the sandbox container is gone.
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	UID       string `json:"uid"`
	Attempt   uint32 `json:"attempt"`

	// CreatedAt is when the sandbox container was created. It lets a pod whose
	// container vanished be shown until its address has been given back.
	CreatedAt time.Time `json:"createdAt,omitzero"`
	Phase     Phase     `json:"phase"`
	// NetnsPath is the pinned network namespace, empty for host network.
	NetnsPath string `json:"netnsPath,omitempty"`
	// Namespaces are those of a pod without a sandbox container, nil for a pod that has one.
	Namespaces *Namespaces `json:"namespaces,omitempty"`
	// UserNamespace is the pin of the pod's user namespace, empty where it has the node's.
	UserNamespace string `json:"userNamespace,omitempty"`
	// Config is the pod's PodSandboxConfig as protobuf JSON, as the client sent it, with the resources of the last
	// UpdatePodSandboxResources.
	Config json.RawMessage `json:"config,omitempty"`
	// RuntimeHandler is the handler the pod was created with, "" for the default one.
	RuntimeHandler string `json:"runtimeHandler,omitempty"`
	// Runtime is the engine's runtime that the handler stood for when the pod was created, empty in records before
	// schema version 3. The engine's default may have changed since.
	Runtime string `json:"runtime,omitempty"`
	// Cgroup is the pod's cgroup where it was made for this pod, nil where somebody else did.
	Cgroup *Cgroup `json:"cgroup,omitempty"`
	// Network is the outcome of CNI ADD, nil before it and for host network.
	Network *Network `json:"network,omitempty"`
	// Containers holds the records of the pod's containers by container id.
	Containers map[string]Container `json:"containers,omitempty"`
}

// Namespaces is what a pod without a sandbox container has in its place, beside its network namespace. The paths are
// empty where the pod uses the node's.
type Namespaces struct {
	// Dir is there for as long as the pod runs, and not after a reboot.
	Dir string `json:"dir"`
	// IPC and UTS are the pins of the namespaces.
	IPC string `json:"ipc,omitempty"`
	UTS string `json:"uts,omitempty"`
	// Shm is the directory that is the containers' /dev/shm.
	Shm string `json:"shm,omitempty"`
}

// Cgroup is a pod's cgroup.
type Cgroup struct {
	// Driver is the engine's, "cgroupfs" or "systemd", and Parent how it is named for that driver.
	Driver string `json:"driver"`
	Parent string `json:"parent"`
}

// Network is the outcome of CNI ADD for one pod.
type Network struct {
	// Config is the name of the CNI network configuration list that was used.
	Config string `json:"config"`
	// IPs are the pod's addresses, the primary one first.
	IPs []string `json:"ips,omitempty"`
	// Result is the CNI result as the plugins returned it.
	Result json.RawMessage `json:"result,omitempty"`
}

// Container is what must survive a crash of one container.
type Container struct {
	// Config is the ContainerConfig as protobuf JSON, as the client sent it,
	// with the resources of the last UpdateContainerResources.
	Config json.RawMessage `json:"config"`
	// ImageRef is the name by digest of the image that it was made from, empty where the image had none.
	ImageRef string `json:"imageRef,omitempty"`
	// Restore is the engine's checkpoint that the container begins with, empty for none.
	Restore string `json:"restore,omitempty"`
	// LogPosition is how far the engine's log has been written out.
	LogPosition LogPosition `json:"logPosition,omitzero"`
	// User is who the container's last run began as, nil where that is not
	// known. The engine cannot tell it once the container has ended.
	User *User `json:"user,omitempty"`
}

// User is who a process runs as.
type User struct {
	UID uint32 `json:"uid"`
	GID uint32 `json:"gid"`
	// Groups are the supplementary groups, the primary one among them.
	Groups []uint32 `json:"groups,omitempty"`
}

// LogPosition is a point up to which the engine's log of a container has been written in the CRI format.
type LogPosition struct {
	// Inode and Offset, in bytes, name the place in the engine's log file.
	Inode  uint64 `json:"inode,omitempty"`
	Offset int64  `json:"offset,omitempty"`
	// Time is that of the record that ends there, in nanoseconds since 1970, 0 for none. It tells the record from one
	// that was written to the same place after the file was emptied.
	Time int64 `json:"time,omitempty"`
	// Born is when that file was made, in nanoseconds since 1970, 0 where the file system does not keep it. It tells
	// the file from a later one that got its inode.
	Born int64 `json:"born,omitempty"`
	// OutputInode is the CRI log file, which the kubelet may have renamed, and
	// OutputSize its size in bytes at that point.
	OutputInode uint64 `json:"outputInode,omitempty"`
	OutputSize  int64  `json:"outputSize,omitempty"`
}

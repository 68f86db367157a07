package checkpoint

import (
	"encoding/json"
	"time"
)

// schemaVersion is the version of Record's layout that this program writes. Each change of Record raises it, see the
// package comment.
const schemaVersion = 7

// Phase is the progress of a pod's set-up when its record was written.
type Phase string

const (
	// PhaseIntent: the sandbox exists and CNI ADD may have run. The next start of criadapter must undo or finish the
	// pod.
	PhaseIntent Phase = "intent"
	// PhaseReady: the pod's set-up was complete.
	PhaseReady Phase = "ready"
	// PhaseStopped: CNI DEL has succeeded and the pod has no address any more. Only the removal is left.
	PhaseStopped Phase = "stopped"
)

// Record is the part of a pod that must survive a crash and that Docker Engine cannot store. The engine knows the
// running containers, and their labels have the CRI metadata.
type Record struct {
	// SandboxID is the record's key: the engine's full container id of the sandbox, or an id of the same form if
	// Namespaces is set.
	SandboxID string `json:"sandboxID"`
	// Name, Namespace, UID and Attempt repeat the pod's metadata, for human readers and for CNI DEL after the sandbox
	// container is gone.
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	UID       string `json:"uid"`
	Attempt   uint32 `json:"attempt"`

	// CreatedAt is the creation time of the sandbox. A pod whose container vanished is shown with this time until its
	// address is released.
	CreatedAt time.Time `json:"createdAt,omitzero"`
	Phase     Phase     `json:"phase"`
	// NetnsPath is the pinned network namespace, empty for host network.
	NetnsPath string `json:"netnsPath,omitempty"`
	// Namespaces are the namespaces of a pod without a sandbox container, nil for a pod with one.
	Namespaces *Namespaces `json:"namespaces,omitempty"`
	// UserNamespace is the pin of the pod's user namespace, empty if the pod uses the node's.
	UserNamespace string `json:"userNamespace,omitempty"`
	// Config is the pod's PodSandboxConfig as protobuf JSON, as the client sent it, with the resources of the last
	// UpdatePodSandboxResources.
	Config json.RawMessage `json:"config,omitempty"`
	// RuntimeHandler is the handler the pod was created with, "" for the default one.
	RuntimeHandler string `json:"runtimeHandler,omitempty"`
	// Runtime is the engine's runtime for the handler when the pod was created, empty in records before schema version
	// 3. The engine's default may have changed since.
	Runtime string `json:"runtime,omitempty"`
	// Cgroup is the pod's cgroup if criadapter created it, else nil.
	Cgroup *Cgroup `json:"cgroup,omitempty"`
	// Network is the result of CNI ADD, nil before it and for the host network.
	Network *Network `json:"network,omitempty"`
	// Containers has the records of the pod's containers by container id.
	Containers map[string]Container `json:"containers,omitempty"`
	// Paused are the ids of the containers that a checkpoint has paused until its end. After a crash, the next
	// start of criadapter resumes them. Containers that a user has paused are not listed.
	Paused []string `json:"paused,omitempty"`
	// CheckpointDirs are the directories that unfinished checkpoints of containers work in. The next start of
	// criadapter removes them.
	CheckpointDirs []string `json:"checkpointDirs,omitempty"`
}

// Namespaces has the namespaces of a pod without a sandbox container, except the network namespace. A path is empty if
// the pod uses the node's namespace.
type Namespaces struct {
	// Dir is the pod's directory with the pins and Shm. It exists while the pod runs, and not after a reboot.
	Dir string `json:"dir"`
	// IPC and UTS are the pins of the namespaces.
	IPC string `json:"ipc,omitempty"`
	UTS string `json:"uts,omitempty"`
	// Shm is the directory of the containers' /dev/shm.
	Shm string `json:"shm,omitempty"`
}

// Cgroup is a pod's cgroup.
type Cgroup struct {
	// Driver is the engine's cgroup driver, "cgroupfs" or "systemd". Parent is the cgroup's name for that driver.
	Driver string `json:"driver"`
	Parent string `json:"parent"`
}

// Network is the result of CNI ADD for one pod.
type Network struct {
	// Config is the name of the CNI network configuration list that was used.
	Config string `json:"config"`
	// IPs are the pod's addresses, the primary one first.
	IPs []string `json:"ips,omitempty"`
	// Result is the CNI result as the plugins returned it.
	Result json.RawMessage `json:"result,omitempty"`
}

// Container is the part of a container that must survive a crash.
type Container struct {
	// Config is the ContainerConfig as protobuf JSON, as the client sent it,
	// with the resources of the last UpdateContainerResources.
	Config json.RawMessage `json:"config"`
	// ImageRef is the digest reference of the container's image, empty if the image has none.
	ImageRef string `json:"imageRef,omitempty"`
	// Restore is the engine's checkpoint from which the container starts, empty for none.
	Restore string `json:"restore,omitempty"`
	// LogPosition is the position in the engine's log up to which the CRI log is written.
	LogPosition LogPosition `json:"logPosition,omitzero"`
	// User is the user of the container's last run, nil if unknown. The engine does not report it after the container
	// has ended.
	User *User `json:"user,omitempty"`
	// OOMRun is the start of the run in which the kernel killed a process of the container for want of memory, zero for
	// none. It is zero in records before schema version 4. The engine does not report each kill.
	OOMRun time.Time `json:"oomRun,omitzero"`
	// End is the end of a run of the container, or a start that failed. It is nil for a container that has not ended,
	// and in records before schema version 5. If another client started the container again, the engine may have a
	// later end.
	End *End `json:"end,omitempty"`
}

// End is a container that has ended, as the engine's inspect shows it. With it criadapter need not inspect the
// container at its next start. The container may have been removed from the engine meanwhile.
type End struct {
	// Name is the container's name in the engine, and ImageID the id of its image.
	Name      string    `json:"name"`
	ImageID   string    `json:"imageID"`
	CreatedAt time.Time `json:"createdAt"`
	// LogPath is the absolute path of the CRI log, empty without one.
	LogPath string `json:"logPath,omitempty"`
	// LogDriver is the engine's log driver. EngineLogPath is the engine's own file, empty if unknown.
	LogDriver     string `json:"logDriver"`
	EngineLogPath string `json:"engineLogPath,omitempty"`
	// User and StopSignal have the image's default applied.
	User       string `json:"user,omitempty"`
	StopSignal string `json:"stopSignal"`
	// CgroupParent and OOMScore are the engine's settings.
	CgroupParent string `json:"cgroupParent,omitempty"`
	OOMScore     int    `json:"oomScore,omitempty"`
	// UpperDir is the directory of the writable layer, empty if unknown.
	UpperDir string `json:"upperDir,omitempty"`
	// StartedAt and FinishedAt are the times of the last run.
	StartedAt  time.Time `json:"startedAt"`
	FinishedAt time.Time `json:"finishedAt"`
	ExitCode   int       `json:"exitCode"`
	OOMKilled  bool      `json:"oomKilled,omitempty"`
	// Error is the engine's message about a failed start.
	Error string `json:"error,omitempty"`
}

// User is the identity of a process.
type User struct {
	UID uint32 `json:"uid"`
	GID uint32 `json:"gid"`
	// Groups are the supplementary groups, including the primary one.
	Groups []uint32 `json:"groups,omitempty"`
}

// LogPosition is a point up to which a container's engine log has been written in the CRI format.
type LogPosition struct {
	// Inode and Offset, in bytes, are the position in the engine's log file.
	Inode  uint64 `json:"inode,omitempty"`
	Offset int64  `json:"offset,omitempty"`
	// Time is the time of the log entry that ends there, in nanoseconds since 1970, 0 for none. It distinguishes the
	// entry from a later one at the same place after the file was emptied.
	Time int64 `json:"time,omitempty"`
	// Born is the creation time of that file, in nanoseconds since 1970, 0 if the file system does not record it. It
	// distinguishes the file from a later one with the same inode.
	Born int64 `json:"born,omitempty"`
	// OutputInode is the inode of the CRI log file, which the kubelet may have renamed. OutputSize is its size in bytes
	// at that point.
	OutputInode uint64 `json:"outputInode,omitempty"`
	OutputSize  int64  `json:"outputSize,omitempty"`
}

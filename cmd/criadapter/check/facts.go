package check

import (
	"github.com/criadapter/criadapter/cni"
	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/internal/checklist"
	"github.com/criadapter/criadapter/internal/config"
)

// facts are the facts about a node. A field that could not be read is zero. Its error field, if it has one, has the
// reason.
type facts struct {
	Config  config.Config
	Kubelet kubeletFacts

	Engine docker.Features
	// EngineErr is why the engine cannot be used.
	EngineErr error
	// OCIRuntime is the engine's runtime criadapter-oci, which the check does not test. OCIRuntimeErr is why the engine
	// cannot use it.
	OCIRuntime    docker.OCIRuntime
	OCIRuntimeErr error

	// Mirrors are the registries that have a hosts.toml for Docker Engine. ContainerdMirrors have one for containerd
	// alone.
	Mirrors, ContainerdMirrors []string
	// ImagePolicyErr is why the image policy refuses all images. It is nil without a policy.
	ImagePolicyErr error
	// NRIPlugins are the programs in the directory of NRI plugins. NRIErr is why NRI cannot start.
	NRIPlugins []string
	NRIErr     error

	Network networkFacts
	// CRI and EngineSocket are the sockets of criadapter and of the engine.
	CRI, EngineSocket socketFacts
	// Others are other CRI servers that answer on the node.
	Others []runtimeFacts
	// Missing are the capabilities that criadapter uses and this process lacks. A user other than root usually lacks
	// all of them.
	Missing []string

	Disks  []diskFacts
	Kernel kernelFacts
	Left   leftovers
}

// kubeletFacts are the relevant settings in a kubelet's configuration file and in the flags that kubeadm gives the
// kubelet.
type kubeletFacts struct {
	// File is empty if there is no file.
	File string
	Err  error

	CgroupDriver    string // empty if the file does not have it
	RuntimeEndpoint string
	// FlagsFile is the file with kubeadm's flags. It is empty unless these flags set RuntimeEndpoint.
	FlagsFile        string
	FailSwapOn       bool
	FailCgroupV1     bool
	LimitedSwap      bool
	PodLogsDirectory string
}

// networkFacts describe the pods' network.
type networkFacts struct {
	// Config is empty on Docker's bridge.
	Config cni.Config
	// Err is why pods cannot join the network.
	Err     error
	Plugins []cni.Plugin
}

// socketFacts is a unix socket of the node.
type socketFacts struct {
	Path string
	// Mode is the file's mode, 0 without a file.
	Mode uint32
	// Answers is the name of the server in its CRI Version, empty without a server.
	Answers string
	// AskErr is the error of a server that answers, but does not report whether it is criadapter.
	AskErr error
	Err    error
}

// runtimeFacts is a CRI server.
type runtimeFacts struct {
	Name, Endpoint string
	// AskErr is the error of a server that answers, but does not report whether it is criadapter.
	AskErr error
}

// diskFacts describe a filesystem with data of criadapter.
type diskFacts struct {
	// Use names the data, such as images.
	Use string
	checklist.Disk
}

// kernelFacts are the kernel's features and limits.
type kernelFacts struct {
	Release string
	// MaxUserNamespaces is 0 without user namespaces.
	MaxUserNamespaces int64
	AppArmor, SELinux bool
	Seccomp, PSI      bool
	// CRIU says that CRIU is installed and that the kernel can restore processes.
	CRIU       bool
	SwapOn     bool
	IPForward  bool
	BridgeCall string // net.bridge.bridge-nf-call-iptables: "1", "0", or empty without the module
	// InotifyInstances and InotifyWatches are limits per user, PIDMax and FileMax limits of the machine. 0 means
	// unknown.
	InotifyInstances, InotifyWatches, PIDMax, FileMax int64
}

// leftovers are resources that belong to no pod of the engine.
type leftovers struct {
	// Unknown is the error that prevented the search.
	Unknown error
	// Pins are paths of network namespaces, and Leases files of host-local. Attachments are ids of pods in the CNI
	// cache, and Records ids of pods without a container. Rules are ids of pods in the rules of host ports.
	Pins, Attachments, Records, Leases, Rules []string
	// Quarantined are corrupt records in the quarantine.
	Quarantined []string
	// These errors belong to searches that can fail although the other searches succeed.
	AttachmentsErr, LeasesErr, RulesErr, QuarantineErr error
}

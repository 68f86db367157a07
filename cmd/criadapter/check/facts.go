package check

import (
	"github.com/criadapter/criadapter/cni"
	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/internal/config"
)

// facts are what is known of a node. A field that could not be read has its zero value and, where there is one, its
// error beside it.
type facts struct {
	Config  config.Config
	Kubelet kubeletFacts

	Engine docker.Features
	// EngineErr is why the engine cannot be used, nil when it can.
	EngineErr error
	// OCIRuntime is the engine's runtime criadapter-oci; whether it works is not tried. OCIRuntimeErr is why it cannot.
	OCIRuntime    docker.OCIRuntime
	OCIRuntimeErr error

	Network networkFacts
	// CRI and EngineSocket are the sockets of both sides.
	CRI, EngineSocket socketFacts
	// Others are other CRI servers that answer on the node.
	Others []runtimeFacts
	// Missing are the capabilities that this process lacks, all of them for a user who is not root.
	Missing []string

	Disks  []diskFacts
	Kernel kernelFacts
	Left   leftovers
}

// kubeletFacts is what matters of a kubelet's configuration file.
type kubeletFacts struct {
	// File is empty when there is none to compare with.
	File string
	Err  error

	CgroupDriver     string // empty when the file does not say
	RuntimeEndpoint  string
	FailSwapOn       bool
	FailCgroupV1     bool
	LimitedSwap      bool
	PodLogsDirectory string
}

// networkFacts is how pods are joined to a network.
type networkFacts struct {
	// Config is empty on Docker's bridge.
	Config cni.Config
	// Err is why pods cannot be joined.
	Err     error
	Plugins []cni.Plugin
}

// socketFacts is a unix socket of the node.
type socketFacts struct {
	Path string
	// Mode is that of the file, 0 when there is none.
	Mode uint32
	// Answers names who answers, as CRI's Version does; empty when nobody does.
	Answers string
	Err     error
}

// runtimeFacts is a CRI server.
type runtimeFacts struct {
	Name, Endpoint string
}

// diskFacts is a file system that something of criadapter's lives on.
type diskFacts struct {
	// Use says for what, Path where.
	Use, Path string
	// Free and Total are in bytes, FreeInodes and Inodes in files; a file system without a limit of files has 0 Inodes.
	Free, Total, FreeInodes, Inodes uint64
	// Memory says that it is gone after a restart of the machine.
	Memory bool
	Err    error
}

// kernelFacts is what the kernel offers.
type kernelFacts struct {
	Release string
	// MaxUserNamespaces is 0 where there are none.
	MaxUserNamespaces int64
	AppArmor, SELinux bool
	Seccomp, PSI      bool
	// CRIU says that its program is installed and that the kernel can restore processes.
	CRIU       bool
	SwapOn     bool
	IPForward  bool
	BridgeCall string // net.bridge.bridge-nf-call-iptables: "1", "0", or empty without the module
	// InotifyInstances and InotifyWatches are limits per user, PIDMax and FileMax of the machine; 0 for not known.
	InotifyInstances, InotifyWatches, PIDMax, FileMax int64
}

// leftovers are what no pod of the engine accounts for.
type leftovers struct {
	// Unknown is why they could not be looked for.
	Unknown error
	// Pins are paths of network namespaces, Attachments ids of pods in the CNI cache, Records ids of pods without a
	// container, Leases files of host-local, Rules ids of pods in the rules of host ports.
	Pins, Attachments, Records, Leases, Rules []string
	// Quarantined are records that were corrupt and were moved away.
	Quarantined []string
	// RulesErr is why rules could not be read.
	RulesErr error
}

package server

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Summary and the types below are the part of the kubelet's summary API (stats/v1alpha1) that the kernel's and the CRI's
// figures fill; the names in JSON are that API's. Bytes, nanoseconds and nanocores.
type Summary struct {
	Node NodeStats  `json:"node"`
	Pods []PodStats `json:"pods"`
}

// NodeStats is the node itself, with all that runs on it.
type NodeStats struct {
	NodeName string `json:"nodeName"`
	// StartTime is when the machine was started.
	StartTime metav1.Time  `json:"startTime"`
	CPU       *CPUStats    `json:"cpu,omitempty"`
	Memory    *MemoryStats `json:"memory,omitempty"`
	Swap      *SwapStats   `json:"swap,omitempty"`
	// Fs is the file system with the kubelet's folder.
	Fs      *FsStats      `json:"fs,omitempty"`
	Runtime *RuntimeStats `json:"runtime,omitempty"`
}

// RuntimeStats is what the runtime keeps on disk: images, and the writable layers of containers.
type RuntimeStats struct {
	ImageFs     *FsStats `json:"imageFs,omitempty"`
	ContainerFs *FsStats `json:"containerFs,omitempty"`
}

// PodStats is one pod.
type PodStats struct {
	PodRef     PodReference     `json:"podRef"`
	StartTime  metav1.Time      `json:"startTime"`
	Containers []ContainerStats `json:"containers"`
	CPU        *CPUStats        `json:"cpu,omitempty"`
	Memory     *MemoryStats     `json:"memory,omitempty"`
	IO         *IOStats         `json:"io,omitempty"`
	Network    *NetworkStats    `json:"network,omitempty"`
	Processes  *ProcessStats    `json:"process_stats,omitempty"`
}

// PodReference names a pod.
type PodReference struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	UID       string `json:"uid"`
}

// ContainerStats is one container.
type ContainerStats struct {
	Name string `json:"name"`
	// StartTime is when this attempt of the container was started.
	StartTime metav1.Time  `json:"startTime"`
	CPU       *CPUStats    `json:"cpu,omitempty"`
	Memory    *MemoryStats `json:"memory,omitempty"`
	IO        *IOStats     `json:"io,omitempty"`
	// Rootfs is the writable layer.
	Rootfs *FsStats   `json:"rootfs,omitempty"`
	Swap   *SwapStats `json:"swap,omitempty"`
}

// CPUStats is processor time.
type CPUStats struct {
	Time                 metav1.Time `json:"time"`
	UsageNanoCores       *uint64     `json:"usageNanoCores,omitempty"`
	UsageCoreNanoSeconds *uint64     `json:"usageCoreNanoSeconds,omitempty"`
	PSI                  *PSIStats   `json:"psi,omitempty"`
}

// MemoryStats is memory.
type MemoryStats struct {
	Time            metav1.Time `json:"time"`
	AvailableBytes  *uint64     `json:"availableBytes,omitempty"`
	UsageBytes      *uint64     `json:"usageBytes,omitempty"`
	WorkingSetBytes *uint64     `json:"workingSetBytes,omitempty"`
	RSSBytes        *uint64     `json:"rssBytes,omitempty"`
	PageFaults      *uint64     `json:"pageFaults,omitempty"`
	MajorPageFaults *uint64     `json:"majorPageFaults,omitempty"`
	PSI             *PSIStats   `json:"psi,omitempty"`
}

// IOStats is the wait for disks.
type IOStats struct {
	Time metav1.Time `json:"time"`
	PSI  *PSIStats   `json:"psi,omitempty"`
}

// PSIStats says for how long all tasks (full) or at least one (some) waited for a resource.
type PSIStats struct {
	Full PSIData `json:"full"`
	Some PSIData `json:"some"`
}

// PSIData is a wait: its total in nanoseconds, and the share of the last seconds in percent.
type PSIData struct {
	Total  uint64  `json:"total"`
	Avg10  float64 `json:"avg10"`
	Avg60  float64 `json:"avg60"`
	Avg300 float64 `json:"avg300"`
}

// SwapStats is swap.
type SwapStats struct {
	Time               metav1.Time `json:"time"`
	SwapAvailableBytes *uint64     `json:"swapAvailableBytes,omitempty"`
	SwapUsageBytes     *uint64     `json:"swapUsageBytes,omitempty"`
}

// FsStats is a file system, or with the used parts alone something on one.
type FsStats struct {
	Time           metav1.Time `json:"time"`
	AvailableBytes *uint64     `json:"availableBytes,omitempty"`
	CapacityBytes  *uint64     `json:"capacityBytes,omitempty"`
	UsedBytes      *uint64     `json:"usedBytes,omitempty"`
	InodesFree     *uint64     `json:"inodesFree,omitempty"`
	Inodes         *uint64     `json:"inodes,omitempty"`
	InodesUsed     *uint64     `json:"inodesUsed,omitempty"`
}

// NetworkStats is the pod's default interface.
type NetworkStats struct {
	Time     metav1.Time `json:"time"`
	Name     string      `json:"name"`
	RxBytes  *uint64     `json:"rxBytes,omitempty"`
	RxErrors *uint64     `json:"rxErrors,omitempty"`
	TxBytes  *uint64     `json:"txBytes,omitempty"`
	TxErrors *uint64     `json:"txErrors,omitempty"`
}

// ProcessStats counts processes.
type ProcessStats struct {
	ProcessCount *uint64 `json:"process_count,omitempty"`
}

// Package podsync has the three steps of a pod's life: SyncPod, SyncTerminatingPod and SyncTerminatedPod of
// pkg/kubelet/kubelet.go. A step makes the pod's volumes, cgroup, probes and containers match its spec, and its status
// match the runtime. Package podworkers calls the steps, one at a time for each pod.
package podsync

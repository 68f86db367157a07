// Package podsync is the three steps of a pod's life (SyncPod, SyncTerminatingPod and SyncTerminatedPod of
// pkg/kubelet/kubelet.go): it brings the pod's volumes, cgroup, probes and containers to what its specification asks
// for, and the pod's status to what the runtime shows. Package podworkers calls the steps, one at a time for each pod.
package podsync

// Package podworkers runs the steps of each pod one after the other, in a goroutine per pod
// (pkg/kubelet/pod_workers.go).
//
// A pod goes through
//
//	waiting      another pod holds its name
//	syncing      PodSyncer.SyncPod, again and again: when woken, when due, after an error
//	terminating  PodSyncer.SyncTerminatingPod until it succeeds
//	terminated   PodSyncer.SyncTerminatedPod until it succeeds; then it is finished
//
// and never back. A finished pod is kept, and does not run again, while its source names it. The API server removes its
// pods after the status reporter has observed Finished. While a step runs, only the latest update waits for it. A
// request to end the pod cancels a running sync, and a shorter grace period cancels a running termination.
package podworkers

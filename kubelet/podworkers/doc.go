// Package podworkers runs the steps of each pod one after the other, in a goroutine per pod (pkg/kubelet/pod_workers.go).
//
// A pod goes through
//
//	waiting      another pod holds its name
//	syncing      PodSyncer.SyncPod, again and again: when woken, when due, after an error
//	terminating  PodSyncer.SyncTerminatingPod until it succeeds
//	terminated   PodSyncer.SyncTerminatedPod until it succeeds; then it is finished
//
// and never back: a pod that has finished is known, and not run again, until its source lets go of it; of the API
// server's pods that is when the status reporter has observed Finished and had the server remove the pod. While a step
// runs, the latest update alone waits behind it; a request to end the pod cancels a running sync, and a shorter grace
// period cancels a running termination.
package podworkers

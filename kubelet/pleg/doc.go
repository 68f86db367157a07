// Package pleg is the pod lifecycle event generator (pkg/kubelet/pleg). It sends changes in the runtime as events, and
// caches the status of each pod.
//
// Generator lists all pods each second (relist) and compares the lists. If the runtime streams container events,
// changes come sooner and the lists are rare. When the stream ends, the generator lists each second again until there
// is another stream.
//
// Neither a list nor an event has the whole status of a pod. The generator notices changes, and the pod's worker asks
// the cache for the status. If the cached status shows the change already, the runtime is not called. Most of the
// kubelet's own changes therefore need no call.
package pleg

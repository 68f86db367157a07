// Package allocation decides about in-place resizes of pods and keeps what came of them (pkg/kubelet/allocation,
// KEP-1287). Three sets of resources belong to a container: desired, which the pod asks for; allocated, which the node
// has granted and counts with; actuated, which the runtime has confirmed. A pod is admitted with what it desires; from
// then on its allocation is pinned, and changes as a whole when a resize fits the node:
//
//	desired != allocated   PodResizePending: Infeasible for ever, or Deferred until other pods leave room
//	allocated != actuated  PodResizeInProgress, until kuberuntime has had the runtime apply it
//
// Only what cannot be seen elsewhere is in the checkpoint: the allocation of each admitted pod, which may ask for another
// while no process looks, and what was actuated after a container was made; what it was made with is an annotation on it.
package allocation

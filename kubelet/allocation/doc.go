// Package allocation decides about in-place resizes of pods and keeps the results (pkg/kubelet/allocation, KEP-1287). A
// container has four sets of resources, named as in the KEP:
//
//	word       who decides                        where it is
//	desired    the pod's spec asks for it         the pod as its source has it
//	allocated  the node granted it                Manager.Allocated; the checkpoint
//	actuated   the runtime confirmed it           Manager.Actuated; the checkpoint, or the container's annotation
//	actual     the runtime reports it             model.ContainerStatus.Actual, as limits
//
// A pod is admitted with its desired resources, which become its allocation. The allocation changes as a whole, when a
// resize fits the node:
//
//	desired != allocated   PodResizePending: Infeasible, or Deferred until other pods leave room
//	allocated != actuated  PodResizeInProgress, until the runtime has applied the allocation
//
// The checkpoint has only data that is stored nowhere else: the allocation of each admitted pod, and resources that
// were actuated after a container's creation. An annotation on the container has the resources that it was created
// with.
package allocation

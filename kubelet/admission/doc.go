// Package admission decides whether a node takes a pod (pkg/kubelet/lifecycle and the admit handlers of
// pkg/kubelet/kubelet.go). The scheduler decided before, on what it knew; pods that name their node, static pods, and
// two decisions at once get past it. A pod that is not taken fails with the kubelet's reason, so that its controller
// makes another. check is pure; Admitter makes it as pods come, and Rejections are those that were not taken.
//
// Critical pods (static pods, mirror pods, and those of a priority from 2000000000 up) are taken while the node is
// short of memory or disk, as the kubelet does: the node may need them to recover. But they need resources like every
// other pod. The kubelet would end pods of lower priority to free resources; this core ends nobody's pods to make room
// for others, so a critical pod that does not fit is refused with the same reason, and the static one is taken when
// its manifest changes.
package admission

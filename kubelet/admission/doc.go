// Package admission decides whether the node admits a pod (pkg/kubelet/lifecycle and the admit handlers of
// pkg/kubelet/kubelet.go). The scheduler's decision is not enough: pods may name their node, static pods have no
// scheduler, and two schedulers may decide at once. A rejected pod fails with the kubelet's reason, and its controller
// replaces it. check is pure. Admitter calls it as pods come, and Rejections keeps the rejected pods.
//
// Critical pods are static pods, mirror pods, and pods with a priority of at least 2000000000. As in the kubelet, the
// node admits them under memory or disk pressure, because it may need them to recover. They need free resources like
// other pods. The kubelet would preempt pods of lower priority for them. This core does not: it rejects a critical pod
// that does not fit, and admits a static one when its manifest changes.
package admission

// Package admission decides whether the node admits a pod (pkg/kubelet/lifecycle and the admit handlers of
// pkg/kubelet/kubelet.go). The scheduler's decision is not enough: pods may name their node, static pods have no
// scheduler, and two schedulers may decide at once. A rejected pod fails with the kubelet's reason, and its controller
// replaces it. check is pure. Admitter calls it as pods come, and Rejections keeps the rejected pods.
//
// Critical pods are static pods, mirror pods, and pods with a priority of at least 2000000000. As in the kubelet, the
// node admits them under memory, disk or PID pressure, because it may need them to recover. They need free resources
// like other pods. If a critical pod does not fit, Admitter ends other pods for it, as the kubelet does. These pods are
// not critical, or have a lower priority. If that is not enough, Admitter rejects the critical pod. A rejected static
// pod is checked again when its manifest changes.
package admission

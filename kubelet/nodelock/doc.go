// Package nodelock keeps two kubelets from managing the same pods (pkg/util/flock and --exit-on-lock-contention of
// cmd/kubelet/app). A root directory belongs to one process and one owner. Without --beside-kubelet, a kubelet core
// does not start beside a kubelet, because a kubelet kills all unknown pods of its runtime.
package nodelock

// Package nodelock keeps two kubelets from taking one machine's pods for their own (pkg/util/flock and
// --exit-on-lock-contention of cmd/kubelet/app): a root directory is one process's and one owner's, and a kubelet core
// does not start unasked beside a kubelet, which kills all pods of its runtime that it does not know.
package nodelock

// Package kuberuntime is the runtime manager (pkg/kubelet/kuberuntime): it carries one pod from what the runtime shows
// to what its specification asks for. computePodActions decides, purely; Manager acts: it kills what must go, makes the
// sandbox and starts containers in their order. Beside it are the hooks, the garbage collection of dead containers,
// sandboxes and images, and the rotation of logs. One call at a time may act on a pod; package podworkers sees to it.
package kuberuntime

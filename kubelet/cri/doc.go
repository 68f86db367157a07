// Package cri connects the kubelet core to a CRI runtime and reads from it, as pkg/kubelet/kuberuntime does. It reads
// the owner's pods, the status of each, and whether the runtime is ready. Package kuberuntime changes pods over the
// same connection.
package cri

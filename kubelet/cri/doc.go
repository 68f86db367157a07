// Package cri connects the kubelet core to a CRI runtime and reads it, as the connection of pkg/kubelet/kuberuntime:
// which pods of ours there are, what each looks like, and whether the runtime is ready. Writing is done by package
// kuberuntime with the same connection.
package cri

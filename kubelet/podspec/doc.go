// Package podspec converts a pod to CRI configurations: one for the sandbox and one per container. It corresponds to
// generatePodSandboxConfig and generateContainerConfig of pkg/kubelet/kuberuntime, with pkg/kubelet/kubelet_pods.go.
// The configurations have environment, mounts, the managed hosts file, DNS, security context, resources and OOM scores.
// The package starts nothing, and writes only the pod's own files below the kubelet's root.
package podspec

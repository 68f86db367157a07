// Package podspec turns a pod into the CRI's configurations (generatePodSandboxConfig and generateContainerConfig of
// pkg/kubelet/kuberuntime, with pkg/kubelet/kubelet_pods.go): one of the sandbox and one per container, with
// environment, mounts, the managed hosts file, DNS, security context, resources and oom scores. It starts nothing; what
// it writes to disk is the pod's own files below the kubelet's root.
package podspec

// Package kuberuntime is the runtime manager (pkg/kubelet/kuberuntime). It makes the runtime match a pod's spec.
// computePodActions decides the actions, without side effects. Manager carries them out: it kills containers, creates
// the sandbox, starts containers in order and runs their hooks. Collector removes dead containers and sandboxes,
// Rotator rotates logs. Package podworkers guarantees that only one call acts on a pod at a time.
package kuberuntime

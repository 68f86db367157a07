// Package metrics measures the work of the kubelet core, under the names that dashboards and alerts of Kubernetes use
// (pkg/kubelet/metrics). Wrappers measure the calls of the runtime and the steps of pods. Other parts report through
// functions in their options, so that no measured part imports this package.
package metrics

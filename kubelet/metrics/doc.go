// Package metrics measures the work of the kubelet core, under the names that dashboards and alerts of Kubernetes use
// (pkg/kubelet/metrics). Wrappers measure the calls of the runtime and the steps of pods. Other parts call functions of
// their options. The measured parts do not import this package.
package metrics

// Package metrics measures the work of the kubelet core, under the names that dashboards and alerts of Kubernetes use
// (pkg/kubelet/metrics). Each part is measured by a wrapper around its interface, so that the part does not know of it.
package metrics

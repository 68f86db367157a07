// Package status is the status manager (pkg/kubelet/status, and generateAPIPodStatus of pkg/kubelet/kubelet_pods.go).
// It makes the API status of a pod: the phase (phase.go), the conditions, and the state of each container. Generate is
// pure. Manager keeps the last status of every pod and notifies its watchers. Package report sends statuses to the API
// server.
package status

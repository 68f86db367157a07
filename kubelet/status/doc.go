// Package status is the status manager (pkg/kubelet/status, and generateAPIPodStatus of pkg/kubelet/kubelet_pods.go):
// it says of a pod what the API says: phase, conditions, the state of each container. Generate is pure; Manager keeps
// the last status of every pod and wakes who asked for changes. Sending them to an API server is package report's.
package status

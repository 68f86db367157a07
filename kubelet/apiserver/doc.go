// Package apiserver joins the kubelet core to the API server of a cluster (the parts of pkg/kubelet that have a kubeClient:
// NewMainKubelet, kubelet_node_status.go, status, mirror pods, watch-based managers). Each part is a package below this
// one; Cluster wires them and is all that the kubelet sees:
//
//	connect    the clients
//	node       registers the node, keeps its lease and status
//	podsource  the pods that the scheduler bound to the node
//	objects    the config maps and secrets that pods name; services the variables, token the service account tokens
//	report     sends statuses and events, and has the server forget deleted pods that have ended
//	mirrorpod  shows static pods there
//
// None of them holds up a pod: all of it goes on without the server, and catches up when that is back.
package apiserver

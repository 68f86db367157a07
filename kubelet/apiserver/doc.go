// Package apiserver connects the kubelet core to the API server of a cluster. It corresponds to the parts of
// pkg/kubelet that have a kubeClient: NewMainKubelet, kubelet_node_status.go, status, mirror pods, watch-based
// managers. Each part is a package below this one. Cluster wires them, and the kubelet uses only Cluster:
//
//	connect       the clients
//	node          registers the node, keeps its lease and status
//	podsource     the pods that the scheduler bound to the node
//	objects       the config maps and secrets that pods name
//	services      the pods' environment variables for services
//	token         the service account tokens of pods
//	report        sends statuses and events, and lets the server remove deleted pods that have ended
//	mirrorpod     shows static pods on the API server
//	review        authenticates and authorizes clients of the kubelet's API
//	runtimeclass  finds the runtime handlers of RuntimeClasses
//
// Without the server, pods that run go on, and the parts catch up when it is back. A new pod waits only for data of the
// server that it needs: config maps, secrets, tokens, service variables and the handler of its RuntimeClass.
package apiserver

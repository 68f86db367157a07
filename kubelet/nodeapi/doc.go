// Package nodeapi serves the kubelet's HTTP endpoints, as pkg/kubelet/server does. There are two.
//
// The read-only one is for people and for scrapers on the same machine. It listens on loopback addresses only, because
// its clients are not authenticated, and refuses requests whose Host is another:
//
//	/pods              all pods with their statuses, a v1.PodList
//	/events            recent events, a v1.EventList, the newest last
//	/healthz           ok, or 500 and the reason: the sync loop has not gone on for minutes
//	/configz           names and directories, for the commands that read logs and exec
//	/stats/summary     stats of the node, pods and containers, a Summary of the kubelet's stats API
//	/metrics           the kubelet core's own metrics, in Prometheus' text format as all below
//	/metrics/cadvisor  the runtime's metrics of pods and containers
//	/metrics/resource  what kubectl top shows
//	/metrics/probes    results of probes
//
// The kubelet's API has the same, but for /events, over TLS on the node's address, and beside them what the API server
// requests of a kubelet on behalf of kubectl; {uid} may be left out:
//
//	/containerLogs/{namespace}/{pod}/{container}  the log
//	/exec/{namespace}/{pod}/{uid}/{container}     a command, over SPDY or a WebSocket
//	/attach/{namespace}/{pod}/{uid}/{container}   the container's own process, in the same way
//	/portForward/{namespace}/{pod}/{uid}          ports of the pod, in the same way
//	/run/{namespace}/{pod}/{uid}/{container}      a command's output as text, by POST
//	/runningpods/                                 what the runtime runs
//
// Clients are authenticated by certificate, and in a cluster by token, too (TokenReview): without a valid one the
// response is 401. Those that are named may do everything; where none is named the API server says who may do what with
// the node's subresources, such as nodes/proxy (SubjectAccessReview). The response to the others is 403,
// and 503 with Retry-After while too many clients are being reviewed.
//
// # Streams
//
// For exec, attach and port-forward the runtime gives out a URL, and the API proxies the client's connection to it: the
// protocol between the two, SPDY or a WebSocket, passes through unchanged. So a runtime must support what clients use:
// API servers use SPDY, unless a node declares the feature ExtendWebSocketsToKubelet, and every runtime supports it;
// criadapter supports WebSockets, too. A session ends when either side closes it, and with Run's context.
package nodeapi

// Package nodeapi serves the kubelet's HTTP endpoints, like pkg/kubelet/server. There are two.
//
// The read-only endpoint is for users and scrapers on the same machine. Its clients are not authenticated, so it
// listens only on loopback addresses and refuses requests with another Host:
//
//	/pods              all pods with their statuses, a v1.PodList
//	/events            recent events, a v1.EventList, the newest last
//	/healthz           ok, or 500 and the reason: the sync loop has made no progress for minutes
//	/configz           names and directories, for the commands that read logs and exec
//	/stats/summary     stats of the node, pods and containers, a Summary of the kubelet's stats API
//	/metrics           the kubelet core's own metrics, in Prometheus' text format, like all paths below
//	/metrics/cadvisor  the runtime's metrics of pods and containers
//	/metrics/resource  the metrics for kubectl top
//	/metrics/probes    results of probes
//
// The kubelet's API has the same paths except /events, over TLS on the node's address. It also has the paths that the
// API server requests for kubectl; {uid} may be left out:
//
//	/containerLogs/{namespace}/{pod}/{container}  the log
//	/exec/{namespace}/{pod}/{uid}/{container}     a command, over SPDY or a WebSocket
//	/attach/{namespace}/{pod}/{uid}/{container}   the container's own process, in the same way
//	/portForward/{namespace}/{pod}/{uid}          ports of the pod, in the same way
//	/run/{namespace}/{pod}/{uid}/{container}      a command's output as text, by POST
//	/runningpods/                                 the pods that the runtime runs
//
// Clients are authenticated by certificate, and in a cluster also by token (TokenReview). Without a valid certificate
// or token the response is 401. Named users and groups may do everything. If none is named, the API server authorizes
// requests by the node's subresources, such as nodes/proxy (SubjectAccessReview). A client without the right gets 403.
// While too many reviews are running, the response is 503 with Retry-After.
//
// # Streams
//
// For exec, attach and port-forward the runtime returns a URL, and the API proxies the client's connection to it. The
// protocol between the two, SPDY or a WebSocket, passes through unchanged, so the runtime must support the client's
// protocol. API servers use SPDY, which every runtime supports, unless a node declares the feature
// ExtendWebSocketsToKubelet. criadapter also supports WebSockets. A session ends when either side closes it, and with
// Run's context.
package nodeapi

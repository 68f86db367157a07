// Package server is what a kubelet answers over HTTP, in two endpoints.
//
// The read-only one is for people and for scrapers on the same machine. It listens on loopback addresses only, because
// nobody is asked who he is:
//
//	/pods              all pods with their statuses, a v1.PodList
//	/events            what happened lately, a v1.EventList, the newest last
//	/healthz           ok, or 500 and the reasons
//	/configz           where things are, for the commands that read logs and exec
//	/stats/summary     figures of the node, pods and containers, in the form of the kubelet's summary API
//	/metrics           the kubelet core's own figures, in Prometheus' text format as all below
//	/metrics/cadvisor  the runtime's metrics of pods and containers
//	/metrics/resource  what kubectl top shows
//	/metrics/probes    how probes ended
//
// The kubelet's API has the same, but for /events, over TLS on the node's address, and beside them what the API server
// asks a kubelet for on behalf of kubectl; {uid} may be left out:
//
//	/containerLogs/{namespace}/{pod}/{container}  the log
//	/exec/{namespace}/{pod}/{uid}/{container}     a command, over SPDY or a WebSocket
//	/attach/{namespace}/{pod}/{uid}/{container}   the container's own process, in the same way
//	/portForward/{namespace}/{pod}/{uid}          ports of the pod, in the same way
//	/run/{namespace}/{pod}/{uid}/{container}      a command's output as text, by POST
//	/runningpods/                                 what the runtime runs
//
// Clients show a certificate: without a valid one the answer is 401, to one whose user may not it is 403.
//
// # Streams
//
// For exec, attach and port-forward the runtime gives out a URL, and the API joins the client's connection with one to
// there: what the two speak, over SPDY or a WebSocket, passes through unchanged. So a runtime must know what clients speak:
// API servers speak SPDY, unless a node declares the feature ExtendWebSocketsToKubelet, and every runtime does;
// criadapter knows WebSockets, too. A session ends when either side hangs up, and with Run's context.
package server

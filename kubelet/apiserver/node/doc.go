// Package node makes this machine a node of a cluster. It corresponds to pkg/kubelet's nodestatus and
// component-helpers' lease controller. It registers a Node object or takes over an existing one. It renews the lease
// that tells the control plane that the node is alive. It reports the node's status: conditions, capacity, addresses,
// versions, images.
//
//	register   once, retried until the API server accepts it
//	lease      every quarter of its duration, 10 seconds of 40; this is the heartbeat
//	status     checked every 10 seconds, sent after a change and at least every 5 minutes
//
// Lease and status each have a goroutine, so a slow disk or runtime does not delay the heartbeat. A failed request is
// retried after 100 milliseconds, doubling to 5 seconds, with a jitter of up to 40 %. A deleted Node object is not
// created again until the process restarts, as in the kubelet: deleting it removes the node from its cluster.
//
// Changes by other components are kept: labels, annotations, taints, conditions and addresses of other types, and other
// resources.
package node

// Package node is the node's registration, status and lease, as pkg/kubelet's nodestatus and component-helpers' lease
// controller: it makes this machine a node of a cluster and keeps it one. It registers a Node object or takes over
// the one that is there, renews the lease by which the control plane knows that the node is alive, and reports the
// node's status: conditions, capacity, addresses, versions, images.
//
//	register   once, tried again until the API server takes it
//	lease      every quarter of its life, 10 seconds of 40; this is the heartbeat
//	status     looked at every 10 seconds, sent when something changed and at least every 5 minutes
//
// Lease and status each have a goroutine, so that a slow disk or runtime does not cost the heartbeat. What the API
// server does not take is tried again after 100 milliseconds, doubling to 5 seconds, with up to two fifths more by
// chance. A Node object that somebody deleted is not made anew until the process restarts, as with the kubelet:
// deleting it is how a node is taken out of its cluster.
//
// What others write is kept: labels, annotations, taints, conditions and addresses of other types, resources that this
// package does not know.
package node

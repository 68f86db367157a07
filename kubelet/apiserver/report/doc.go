// Package report sends the API server what this node knows. StatusSyncer is the writing half of pkg/kubelet/status:
// it sends the pods' statuses and finalises deleted pods. EventSink is client-go's event broadcaster (tools/record)
// with a bounded queue. Neither blocks its callers, and neither needs the server to be there.
//
// # Pod statuses
//
// The status store has the last word on each pod. When it changes, the pod is queued; a few workers take pods from the
// queue, never two the same one, and for each
//
//	get the pod from the server     not there, or another UID: forgotten until it is observed again
//	merge                           conditions and fields of others stay, see merged
//	patch the status                only if it differs, with the UID as precondition
//	delete with grace 0             if the pod is deleted, has ended, and the server has a terminal phase
//
// A status that is held (status.Manager.Hold) waits: the server knows better.
//
// What fails is tried again with a growing pause. Every ten seconds all pods are compared with what the server showed
// last (ObservePod): so a status that somebody changed there is set right, as is all that changed while the server
// was away.
//
// # Static pods
//
// A static pod's status goes to its mirror pod (package mirrorpod), once that was observed (ObserveMirrorPods), by its
// name. The two have different UIDs: the mirror's is the server's, the static pod's is in the mirror's annotation
// kubernetes.io/config.mirror. Within the kubelet a static pod always has its own UID; the mirror's is used for
// preconditions alone. Mirrors are never finalised here.
//
// # Events
//
// Events of static pods name the static pod's own UID, as the kubelet's do: kubectl describe, asked for a mirror pod,
// looks for events of the UID in its annotation.
package report

// Package report sends this node's pod statuses and events to the API server. StatusSyncer is the writing half of
// pkg/kubelet/status: it sends the pods' statuses and finalises deleted pods. EventSink is client-go's event
// broadcaster (tools/record) with a bounded queue. Neither blocks its callers, even while the server is away.
//
// # Pod statuses
//
// The status store has the truth about each pod. When a status changes, the pod is queued. A few workers take pods from
// the queue, never the same pod at the same time. For each pod they
//
//	get the pod from the server     missing, or another UID: forgotten until it is observed again
//	merge                           conditions and fields of other components stay, see merged
//	patch the status                only if it differs, with the UID as precondition
//	delete with grace 0             if the pod is deleted, has ended, and the server has a terminal phase
//
// A held status (status.Manager.Hold) is not sent: the server may have a newer one.
//
// A failure is retried with a growing pause. Every ten seconds all pods are compared with the server's last observed
// pods (ObservePod). This corrects statuses that another client changed, and sends changes from the time when the
// server was away.
//
// # Static pods
//
// A static pod's status is sent to its mirror pod (package mirrorpod) by name, after the mirror pod was observed
// (ObserveMirrorPods). The two have different UIDs. The server sets the mirror pod's UID. The mirror pod's annotation
// kubernetes.io/config.mirror has the static pod's UID. Within the kubelet a static pod always has its own UID, and the
// mirror pod's UID is used only for preconditions. This package never finalises mirror pods.
//
// # Events
//
// Events of static pods name the static pod's own UID, as in the kubelet. For a mirror pod, kubectl describe shows the
// events of the UID in the mirror pod's annotation.
package report

// Package podconfig collects the pods that this node should run, like pkg/kubelet/config. Each source sets all of its
// pods, and PodConfig turns them into changes for the sync loop. After a restart a checkpoint file restores the
// accepted pods until their source is complete.
//
// # Sources
//
//	FileSource   manifests in a directory, noticed as they change     static pods and the objects that they name
//	URLSource    the answer of a web server, every 20 seconds         static pods
//
// The API server's pods come from package kubelet/apiserver/podsource: all other pods, and mirror pods.
//
// If a source cannot be read, its pods run on. The source reports the problem once, and reports again when the problem
// is over.
//
// # Pod updates
//
//	ADD         a new pod
//	UPDATE      its specification (an image, a resize), labels or annotations changed
//	DELETE      it has a new deletionTimestamp or grace period; the pod may be new
//	REMOVE      its source no longer lists it; a new UID under an old name is REMOVE and then ADD
//	RECONCILE   only its status changed; for a static pod: its mirror pod changed, or the first list came
//
// A pod's name belongs to the place that lists it first: a manifest, a URL or the API server. A pod of that name from
// another place is refused, and its refusal is reported once. The pod is accepted as soon as the first place releases
// the name. Mirror pods are not in the stream, but in PodConfig.MirrorPods: they are the API server's copies of static
// pods, and never run.
//
// # After a restart
//
// PodConfig.Restore comes before the sources. Restored pods run on. PodConfig.Settled stays false at first. It becomes
// true when every source has set its pods once and the reader has received them. So no pod is ended only because its
// source or the reader is late.
package podconfig

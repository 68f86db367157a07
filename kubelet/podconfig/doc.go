// Package podconfig says which pods this node is to run, as pkg/kubelet/config. Sources each set all of their pods,
// PodConfig turns that into changes for the sync loop, and a checkpoint file brings the pods back that were accepted
// before a restart, until their source is complete.
//
// # Sources
//
//	FileSource   manifests in a directory, noticed as they change     static pods, their config maps and secrets
//	URLSource    what a web server answers, asked every 20 seconds    static pods
//
// The API server's pods come from package kubelet/apiserver/podsource: all other pods, and mirror pods.
//
// A source that cannot be asked, or answers what cannot be read, takes nothing away: its pods run on. It reports the
// problem once, and again when it is over.
//
// # Pod updates
//
//	ADD         a pod that was not there
//	UPDATE      its specification (an image, a resize), labels or annotations changed
//	DELETE      it has a deletionTimestamp, or a new grace period with it; it may not have been known before
//	REMOVE      its source no longer lists it; a new UID under an old name is REMOVE and then ADD
//	RECONCILE   only its status changed at the source; of a static pod: its mirror, or the API server listed its pods for the first time
//
// A pod's name belongs to the place (a manifest, a URL, the API server) that has it; a pod of that name from another
// place is refused, once with the reason, and taken as soon as the first place lets go of the name. Mirror pods are
// beside the stream, in PodConfig.MirrorPods: they are the API server's pictures of static pods, never pods to run or
// kill.
//
// # After a restart
//
// PodConfig.Restore comes before the sources. What it brings back runs on, but PodConfig.Settled stays false until
// every source has set its pods once and the reader has received them, so that nothing is ended only because its source
// or the reader is late.
package podconfig

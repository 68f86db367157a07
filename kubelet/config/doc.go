// Package config says which pods this node is to run. Sources each tell their whole set of pods, Mux turns that into
// changes for the sync loop, and a checkpoint file brings the pods back that were accepted before a restart, until their
// source has spoken.
//
// # Sources
//
//	Folder   manifests in files, noticed as they change           static pods, their config maps and secrets
//	URL      what a web server answers, asked every 20 seconds    static pods
//	API      what an API server has for this node, watched        all other pods, and mirror pods
//
// A source that cannot be asked, or answers what cannot be read, takes nothing away: its pods run on. It tells of the
// problem once, and again when it is over.
//
// # What Mux tells
//
//	ADD         a pod that was not there
//	UPDATE      its specification (an image, a resize), labels or annotations changed
//	DELETE      it has a deletionTimestamp, or a new grace period with it; it may not have been known before
//	REMOVE      its source no longer names it; a new UID under an old name is REMOVE and then ADD
//	RECONCILE   only its status changed at the source; of a static pod: its mirror, or the API server spoke for the first time
//
// A pod's name belongs to the place (a manifest, a URL, the API server) that has it; a pod of that name from another
// place is refused, once with the reason, and taken as soon as the first place lets go of the name. Mirror pods are told
// beside the stream, by Mirrors: they are the API server's pictures of static pods, never pods to run or kill.
//
// # After a restart
//
// Mux.Restore comes before the sources. What it brings back runs on, but Mux.Ready stays false until every source has
// told its pods once, so that nothing is ended only because its source is late.
package config

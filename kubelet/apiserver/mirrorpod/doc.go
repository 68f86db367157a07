// Package mirrorpod is the mirror client of pkg/kubelet/pod, and the loop that uses it: it keeps a mirror pod on the
// API server for each static pod, so that people and controllers there see what runs on this node without their doing.
//
// A mirror pod is a copy of the static pod with the annotation kubernetes.io/config.mirror and the node as its owner.
// It has the static pod's name and namespace, and a UID that the server gives; the annotation holds the static pod's
// hash (kubernetes.io/config.hash), which is its UID: so each leads to the other. A mirror whose hash is another one
// shows an older manifest, and is replaced; one that somebody deletes is made anew; one whose static pod is gone is
// removed. Nothing that is done to a mirror reaches the static pod.
//
// All of this is done by Run, apart from the pods' workers: a static pod does not wait for the API server.
package mirrorpod

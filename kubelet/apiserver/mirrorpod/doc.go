// Package mirrorpod keeps a mirror pod on the API server for each static pod. Users and controllers thus see the static
// pods of this node. The package corresponds to the mirror client of pkg/kubelet/pod and its loop.
//
// A mirror pod is a copy of the static pod with the annotation kubernetes.io/config.mirror and the node as its owner.
// It has the static pod's name and namespace, and a UID from the server. The annotation has the static pod's hash
// (kubernetes.io/config.hash), which is the static pod's UID, so each leads to the other. A mirror pod with another
// hash shows an older manifest and is replaced. A deleted mirror pod is created again. A mirror pod without a static
// pod is removed. Changes of a mirror pod never reach the static pod.
//
// Run does all of this outside of the pods' workers, so a static pod does not wait for the API server.
package mirrorpod

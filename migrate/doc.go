// Package migrate takes a node over from cri-dockerd (or from dockershim, before it) while its pods run, and hands it
// back.
//
// What those pods need is on the node already: the engine has their containers, whose names and labels are the same,
// and cri-dockerd has left its checkpoints and libcni's cache. Three things are missing, and [Node.Adopt] makes them: a
// record of ours with the pod's addresses and configuration, a pin of its network namespace with libcni's entry in our
// cache, and for each running container a log in the CRI format in the place of the link to the engine's json-file.
//
// Looking (look.go) and acting (apply.go) are apart from deciding (pod.go, container.go, space.go), which is pure.
//
// # Order
//
// A pod is pinned and its CNI entry copied; its new logs are made beside their links; the record is saved with the logs'
// positions; then the logs take the links' places. Each step can be repeated, and whatever moment the process dies at,
// the next start does the rest: what decides is what is there, not what was done before.
//
// cri-dockerd's own files stay until the pod is removed ([Node.Forget]), so that a node can go back at any time.
package migrate

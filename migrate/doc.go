// Package migrate takes a node over from cri-dockerd or dockershim while its pods run, and hands it back.
//
// The engine has the pods' containers, with the same names and labels. cri-dockerd has left its checkpoints and
// libcni's cache. [Node.Adopt] adds the missing three things. The first is a record with the pod's addresses and
// configuration. The second is a pin of its network namespace, with libcni's entry in our cache. The third is a log in
// the CRI format for each running container, instead of the link to the engine's json-file.
//
// Reading (look.go) and acting (apply.go) are separate from deciding (pod.go, container.go, space.go), which is pure.
//
// # Order
//
// A pod is pinned and its CNI entry is copied. Its new logs are made beside their links. The record is saved with the
// logs' positions, and then the logs replace the links. Each step can be repeated: it depends on the present state
// only. So if the process dies, the next start does the rest.
//
// cri-dockerd's own files stay until the pod is removed ([Node.Forget]), so that a node can go back at any time.
package migrate

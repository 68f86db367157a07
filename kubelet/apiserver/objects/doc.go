// Package objects returns the config maps and secrets that a pod sees. It corresponds to pkg/kubelet/configmap and
// pkg/kubelet/secret with the watch-based manager of pkg/kubelet/util/manager. A static pod sees objects of the
// manifests, and a pod of the API server sees the server's objects: ByOrigin distinguishes them.
//
// Manager has the API server's objects. It watches each object that a registered pod names, by name. A node may not
// read other objects, so it cannot watch a whole namespace. An object that several pods name is watched once. An
// immutable object is read once. An object that no pod names any more is forgotten. Objects stay available while the
// server is away.
package objects

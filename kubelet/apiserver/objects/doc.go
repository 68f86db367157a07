// Package objects is the kubelet's managers of config maps and secrets (pkg/kubelet/configmap and secret, with the
// watching manager of util/manager): it answers which of them a pod sees. A static pod sees those of the manifests, a
// pod of the API server sees the server's: ByOrigin distinguishes them.
//
// Manager has the API server's objects. It watches each object that a registered pod names, by its name: the server
// lets a node see no others, so a namespace cannot be watched as a whole. An object that several pods name is watched
// once, one that is immutable is read and then left alone, and one that no pod names any more is forgotten. What is
// known stays known while the server is away.
package objects

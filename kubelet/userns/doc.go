// Package userns gives each pod with a user namespace (hostUsers: false, KEP-127) a range of the host's user and group
// ids, which no other pod of this kubelet has (pkg/kubelet/userns). A pod keeps its range until nothing of the pod is
// left, even over a restart: the range is on disk before any container has it. The runtime maps the mounts of volumes
// (idmapped mounts), so files have the same owners on disk as in containers.
package userns

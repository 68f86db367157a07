// Package userns gives each pod that has a user namespace of its own (hostUsers: false, KEP-127) a range of the host's
// user and group ids, which no other pod of this kubelet has (pkg/kubelet/userns). A range belongs to a pod until nothing
// is left of it, also over a restart: it is on disk before any container has it. Files of the pod's volumes have the ids
// that they have in containers: the runtime maps the mounts (idmapped mounts).
package userns

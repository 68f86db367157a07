// Package netns pins, enters and unpins network namespaces.
//
// A pod's network namespace lives as long as a process of the pod does. A pin is a bind mount of the namespace on a
// file below /run/netns. A pinned namespace lives until it is unpinned, so that CNI DEL can clean up in it after the
// sandbox has died. Other tools (ip netns, CNI plugins) find it where they look for namespaces.
//
// A [Set] holds a pod's namespaces that were made without a process, IPC and UTS among them. Only its pins keep them.
//
// The package needs Linux and the right to mount and to call setns (CAP_SYS_ADMIN).
package netns

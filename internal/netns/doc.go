// Package netns pins, enters and unpins network namespaces.
//
// A pod's network namespace lives as long as a process of the pod does. Pinned, that is bind mounted on a file below
// /run/netns, it lives until it is unpinned: CNI DEL can then clean up in it after the sandbox has died, and other
// tools (ip netns, CNI plugins) find it where they look for namespaces.
//
// A [Set] is a pod's namespaces that were made without a process, IPC and UTS among them: its pins alone keep them.
//
// The package needs Linux and the right to mount and to call setns (CAP_SYS_ADMIN).
package netns

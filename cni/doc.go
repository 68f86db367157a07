// Package cni connects pods to the networks of a node through CNI plugins, over
// github.com/containernetworking/cni/libcni (CNI specification 1.1.0 and all earlier versions).
//
// A Network watches one directory of network configurations. It joins pods to the first valid one in lexical order, as
// kubelets, containerd and CRI-O do. It takes the path of a network namespace, so it knows nothing of engines and
// containers. The caller must pin the namespace before Add, and keep it pinned until Del has succeeded.
//
// # What is deleted
//
// Del touches only its pod, with the configuration that Add used for it. GC makes a plugin remove every attachment that
// is not listed. The plugins' state (host-local's leases, iptables chains) is shared with other runtimes that use the
// same network name: one GC by criadapter would cut off their pods. It is for nodes where only criadapter uses the
// network (--cni-gc). Leftovers of a crash are found without GC: Attached lists the pods of the cache and the pending
// ADDs.
//
// CHECK is not used. CRI has no place for its result, and the only answer to a fault would be to stop the pod. The
// kubelet's probes and the network's own agents decide about that.
//
// # Surviving a crash
//
// libcni writes its cache of an attachment after the last plugin of ADD has succeeded. Before the first plugin runs,
// Add therefore records a pending ADD with the configuration and the arguments. It removes this record when the
// attachment is cached or undone. Whenever the process dies, Del finds the configuration and the arguments. The cache
// and the pending ADDs are in a directory of criadapter's own (Options.CacheDir), which no other runtime uses.
//
// A plugin goes on when the process dies. If Del finds a pending ADD, it first kills the processes that still run that
// ADD. It finds them by their environment, which every program that a plugin starts inherits. Work that an ADD has
// handed to a daemon of its network, as thick plugins do, goes on.
//
// # Loopback
//
// The loopback plugin is not run in addition to the configuration. It only sets lo up. The OCI runtime does that in
// every network namespace that it makes, also for Docker's network mode "none" and with a disabled network. criadapter
// does it in the namespaces that it makes itself. This saves one process start per pod. If a configuration lists the
// loopback plugin, the plugin runs like any other.
//
// # Concurrency
//
// All methods of Network may be called from several goroutines. Calls for different pods run in parallel. The caller
// must serialise calls for one pod (a lock per pod). A call uses the configuration that was current when it began,
// until its end. A change in the directory affects later calls only. Del uses Add's configuration.
//
// Plugins run in the network namespace of the calling thread, which is the node's unless the caller has changed it.
package cni

// Package cni connects pods to the networks of a node through CNI plugins, over
// github.com/containernetworking/cni/libcni (CNI specification 1.1.0 and all earlier versions).
//
// A Network watches one directory of network configurations and joins pods to the first valid one in lexical order, as
// kubelets, containerd and CRI-O expect it. It takes the path of a network namespace, so it knows nothing of engines
// and containers, and the namespace must be pinned by the caller before Add and until Del has succeeded.
//
// # What is deleted
//
// Del touches only the pod that it is given, with the configuration that Add used for it. GC is another thing: it tells
// a plugin to remove every attachment that is not listed, and the plugins' own state (host-local's leases, iptables
// chains) is shared with whatever other runtime uses the same network name, so that one GC of ours would cut off its
// pods. It is for nodes whose operator says that nobody else uses the network (--cni-gc). What a crash has left is
// found without it: Attached lists what the cache and the notes name.
//
// CHECK is not used. CRI has no place for what it says of one pod, and the only answer to a fault would be to stop the
// pod, which is not the runtime's to decide; the kubelet's probes and the network's own agents look after that.
//
// # Surviving a crash
//
// libcni writes its cache of an attachment after the last plugin of ADD has succeeded. Before the first plugin runs,
// Add therefore leaves a note of its own with the configuration and the arguments, and removes it when the attachment
// is cached or undone. Whatever moment the process dies at, Del finds what to run. The cache and the notes live in a
// directory of our own (Options.CacheDir), where no other runtime's attachments are.
//
// A plugin goes on when the process dies. Where Del finds a note, it first kills the processes that still run the ADD.
// It finds them by their environment, which every program that a plugin starts inherits. What an ADD has handed to a
// daemon of its network, as thick plugins do, is up to that daemon.
//
// # Loopback
//
// The loopback plugin is not run in addition to the configuration. It has one job, to set lo up, and the OCI runtime
// does that itself in every network namespace it makes, also for Docker's network mode "none" and for containers with a
// disabled network. One process start per pod is saved. A configuration that lists the loopback plugin gets it run, as
// any other.
//
// # Concurrency
//
// All methods of Network may be called from several goroutines. Calls for different pods run in parallel; calls for one
// pod must be serialised by the caller (a lock per pod). A call works to its end with the configuration that was
// current when it began: a change in the directory affects later calls only, and Del uses what Add used.
//
// Plugins run in the network namespace of the thread that calls, which is the node's unless the caller changed it.
package cni

// Package kubelet is the core of a kubelet: it keeps the pods that its sources name running on any CRI runtime. It is
// minimal in size, not in truth: what it does, it does as the kubelet does. New makes one of Options, and Run has it work;
// cmd/kubelet-core is the program around that. Read the packages in the order of a pod's way.
//
// # A pod's way
//
// A file appears in the manifest directory (or a URL answers, or an API server sends). podconfig.FileSource notices,
// lets it settle, and has package manifest read it: strict decoding, a UID that is a hash of content and place,
// defaults, validation that names each field. podconfig.PodConfig compares the source's pods with those of before and
// sends the difference: ADD, UPDATE, REMOVE, DELETE, RECONCILE. It also writes the accepted pods to a checkpoint, from
// which the next start restores them before any source is complete.
//
// The sync loop (syncloop.go) is one select over everything that can ask for work:
//
//	config updates    a pod is to be, to change or to end
//	PLEG events       the runtime's state of a pod changed
//	probe results     a container is to be restarted, or became ready
//	changed objects   a config map or secret: volumes are to be refreshed
//	the sync ticker   pods whose time has come: a back-off ends, a retry, a minute has passed
//	housekeeping      running pods that nobody wants; leftovers
//
// Each change of the sources is one line in the log, "SyncLoop ADD" with its source and pods. What the node cannot take
// is refused by package admission: the pod is shown as failed, and never gets a worker. What it takes has its resources
// pinned by package allocation, and a pod that asks for others gets them when there is room (resize.go). Otherwise the
// loop does nothing itself: it wakes the pod's worker. While the runtime is not ready the loop rests, 100 milliseconds
// doubling to 5 seconds, and all pods stay as they are. While its network alone is not ready, SyncPod holds back the
// pods that need it.
//
// podworkers.Workers has a goroutine per pod, so that a pod that hangs holds up no other. The worker waits until the
// pod's name is free, then calls SyncPod again and again; when the pod is to end it calls SyncTerminatingPod until no
// container is left, then SyncTerminatedPod, and never goes back. The latest update wins, and a request to end cancels
// a running sync. The three steps are package podsync:
//
//   - SyncPod takes the pod's status from package pleg's cache (what the runtime shows), makes the API status of it with
//     status.Generate and publishes that, makes cgroups and volumes, and hands over to kuberuntime.Manager, the runtime
//     manager. Why containers wait comes back as its result, and goes into the status.
//   - computePodActions (kuberuntime/actions.go) decides, purely, from the pod, its observed status and the probes' results:
//     which sandbox, what to kill, to resize and to start. The manager does it: package imagemanager pulls, package
//     podspec writes the configurations, CRI creates and starts, hooks run. What has to wait (crash or pull back-off)
//     says until when.
//   - SyncTerminatingPod kills: preStop hook, SIGTERM, the grace period, SIGKILL; sidecars last. SyncTerminatedPod unmounts
//     and forgets.
//
// What the manager does the runtime shows: package pleg lists all pods each second, or takes the runtime's own events
// where it streams them, refreshes the cache and sends an event; the loop wakes the worker; the worker syncs;
// computePodActions finds nothing more to do. The same circle restarts a container that died. Whatever is missed is
// found by the next list, whatever failed is tried again: no step relies on an earlier one having been observed.
//
// Package prober has a goroutine per probe of each running container; a step starts and ends them. Package housekeeping
// ends what nobody wants, removes what pods left, and keeps the disk free. Package eviction ends pods that use more of it
// than they may, and others when the node is short of memory or disk, by what package podstats counts. Package nodeshutdown ends all of them in order
// when logind tells that the machine goes down.
//
// # In a cluster
//
// With a kubeconfig the same loop serves a cluster. What is more is package apiserver, the one place that knows of a
// server; the kubelet uses it through apiserver.Cluster, and none of it holds up a pod:
//
//	apiserver/podsource  sets the pods that the scheduler bound to this node, once apiserver/node has registered it
//	apiserver/objects    has the config maps and secrets that pods name, services the variables, token the tokens
//	apiserver/report     sends each status that the status manager has, and has the server forget a deleted pod that has ended
//	apiserver/mirrorpod  shows static pods there
//	nodeapi              answers kubectl logs, exec, attach and port-forward over TLS, by way of the API server
//
// A server that is away changes nothing here: pods run on, restarts and probes go on, and the last status of each pod
// is sent when it is back. After a restart without it the checkpoint has its pods, too; what it says of their readiness
// is not sent before the server has listed them or their probes have spoken, because the server may know better.
//
// # What survives
//
// A restart of this process, of the runtime's or of both restarts no container: everything that must be remembered is
// in the runtime (labels and annotations of containers, see package model), in the manifests, or in the checkpoints of
// pods (package podconfig), of their resources (package allocation) and of their user ids (package userns). In memory
// alone are back-offs, probe results and events.
//
// # Concurrency
//
// Everything of one pod happens in its worker's goroutine; the parts that several pods share say in their documentation
// that they are safe for concurrent use. Every goroutine ends with Run's context, and Run waits for them.
package kubelet

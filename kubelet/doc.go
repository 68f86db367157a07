// Package kubelet is the core of a kubelet: it runs the pods of its sources on any CRI runtime. It has fewer features
// than the kubelet, but behaves as the kubelet does. New makes a Kubelet, and Run runs it. cmd/kubelet-core is the
// program. Read the packages in the order of a pod's life.
//
// # A pod's life
//
// A pod comes from a file in the manifest directory, from a URL, or from an API server. For a new file,
// podconfig.FileSource waits until the file settles. Package manifest parses the file: strict decoding, a UID that is a
// hash of content and path, defaults, and validation. Then podconfig.PodConfig compares the source's pods with its
// previous ones, and sends the difference: ADD, UPDATE, REMOVE, DELETE, RECONCILE. It also writes the accepted pods to
// a checkpoint. After a restart it restores them from there, before any source is complete.
//
// The sync loop (syncloop.go) is one select over all causes of work:
//
//	config updates    a pod must start, change or end
//	PLEG events       the state of a pod in the runtime changed
//	probe results     a container must restart, or became ready
//	changed objects   a config map or secret changed, so volumes must be updated
//	the sync ticker   pods that are due: after a back-off, for a retry, or after a minute
//	housekeeping      unwanted running pods, and leftovers
//
// Each change of a source is one line in the log, "SyncLoop ADD" with its source and pods. Package admission rejects
// pods that do not fit the node. A rejected pod becomes Failed and never gets a worker. Package allocation keeps the
// resources of admitted pods. A pod that desires other resources gets them when they fit the node (resize.go). For
// everything else, the loop wakes the pod's worker. While the runtime is not ready, the loop rests, and all pods stay
// as they are. While only the pod network is not ready, SyncPod holds back the pods that need it.
//
// podworkers.Workers has a goroutine per pod, so a pod that hangs does not block the others. The worker waits until the
// pod's name is free, and then calls SyncPod repeatedly. When the pod must end, the worker calls SyncTerminatingPod
// until no container is left, and then SyncTerminatedPod. A pod that began to end never runs again. The latest update
// wins, and a request to end cancels a running sync. Package podsync has the three steps:
//
//   - SyncPod takes the pod's status in the runtime from the cache of package pleg. It makes the API status with
//     status.Generate and publishes it, makes cgroups and volumes, and calls kuberuntime.Manager, the runtime manager.
//     The manager's result has the reasons of waiting containers for the status.
//   - In the manager, computePodActions (kuberuntime/actions.go) decides what to kill, resize and start. It is pure.
//     Then the manager acts: package imagemanager pulls images, package podspec makes the configurations, and CRI calls
//     create and start containers. During a crash or pull back-off, the result has the time of the next sync.
//   - SyncTerminatingPod stops containers: preStop hook, SIGTERM, grace period, SIGKILL, sidecars last.
//     SyncTerminatedPod unmounts volumes and removes the cgroup.
//
// Package pleg notices changes in the runtime. It lists all pods each second, or receives the runtime's events if the
// runtime streams them. Each change is an event for the loop. The loop wakes the worker, and the worker syncs until
// computePodActions finds nothing to do. A container that died is restarted in the same way. The next list finds missed
// changes, and failed steps are repeated. No step needs the result of a missed event.
//
// Package prober has a goroutine per probe of each running container. Package housekeeping ends unwanted pods, removes
// leftovers and keeps the disk free. Package eviction evicts pods that use too much local storage. It also evicts pods
// while the node is short of memory, disk or process ids. Package podstats measures the usage for evictions and for the
// stats summary. Package nodeshutdown ends all pods in order when logind announces a shutdown of the machine. Package
// metrics wraps the runtime's client and the pod syncer, to measure them.
//
// # In a cluster
//
// With a kubeconfig the same loop serves a cluster. Only package apiserver talks to the API server. The kubelet uses it
// through apiserver.Cluster. Only a new pod waits for the server, if it needs data of the server:
//
//	apiserver/podsource  the pods that the scheduler bound to this node, once apiserver/node has registered it
//	apiserver/objects    the config maps and secrets of pods
//	apiserver/services   the pods' environment variables for services
//	apiserver/token      the service account tokens of pods
//	apiserver/report     sends the statuses of the status manager, and removes deleted pods that have ended
//	apiserver/mirrorpod  makes the mirror pods of static pods
//	nodeapi              serves kubectl logs, exec, attach and port-forward over TLS, through the API server
//
// While the API server is away, pods keep running, with restarts and probes. When the server is back, it gets the last
// status of each pod. After a restart without the server, the server's pods come from the checkpoint. Their readiness
// in the checkpoint may be out of date. So a pod's status is sent only when the server has listed the pod or its probes
// have results.
//
// # What survives
//
// A restart of this process or of the runtime restarts no container. All lasting state is in the runtime, in the
// manifests, or in checkpoints. In the runtime it is in labels and annotations of containers, see package model.
// Checkpoints have the pods (package podconfig), their resources (package allocation), user ids (package userns),
// devices and CPUs (package grants). They also have the pulled images and who may use them (package imagemanager).
// Back-offs, probe results and events are only in memory.
//
// # Concurrency
//
// All work on one pod is done in its worker's goroutine. Parts that several pods share say in their documentation that
// they are safe for concurrent use. Every goroutine ends with Run's context, and Run waits for them.
package kubelet

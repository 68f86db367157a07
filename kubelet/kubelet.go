package kubelet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"github.com/containerd/log"
	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/kubelet/admission"
	"github.com/criadapter/criadapter/kubelet/apiserver"
	"github.com/criadapter/criadapter/kubelet/cgroup"
	"github.com/criadapter/criadapter/kubelet/cpumanager"
	"github.com/criadapter/criadapter/kubelet/cri"
	"github.com/criadapter/criadapter/kubelet/devicemanager"
	"github.com/criadapter/criadapter/kubelet/events"
	"github.com/criadapter/criadapter/kubelet/eviction"
	"github.com/criadapter/criadapter/kubelet/housekeeping"
	"github.com/criadapter/criadapter/kubelet/imagemanager"
	"github.com/criadapter/criadapter/kubelet/kuberuntime"
	"github.com/criadapter/criadapter/kubelet/metrics"
	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/kubelet/nodeapi"
	"github.com/criadapter/criadapter/kubelet/nodelock"
	"github.com/criadapter/criadapter/kubelet/nodeshutdown"
	"github.com/criadapter/criadapter/kubelet/pleg"
	"github.com/criadapter/criadapter/kubelet/podconfig"
	"github.com/criadapter/criadapter/kubelet/podspec"
	"github.com/criadapter/criadapter/kubelet/podstats"
	"github.com/criadapter/criadapter/kubelet/podsync"
	"github.com/criadapter/criadapter/kubelet/podworkers"
	"github.com/criadapter/criadapter/kubelet/prober"
	"github.com/criadapter/criadapter/kubelet/status"
	"github.com/criadapter/criadapter/kubelet/volumekinds"
	"github.com/criadapter/criadapter/kubelet/volumemanager"
)

// Kubelet runs the pods of this node. Make it with New, and call Run once.
type Kubelet struct {
	opts       Options
	root       *nodelock.Root
	runtime    *cri.Runtime
	state      *cri.State
	pleg       *pleg.Generator
	status     *status.Manager
	cluster    *apiserver.Cluster
	prober     *prober.Manager
	workers    *podworkers.Workers
	cleaner    *housekeeping.Cleaner
	collectors *housekeeping.Collectors
	sources    *podSources
	endpoints  endpoints
	loop       *syncLoop
	events     *events.Recorder
	cgroups    *cgroup.Manager
	volumes    *volumemanager.Manager
	stats      *podstats.Provider
	metrics    *metrics.Metrics
	images     *imagemanager.Images
	monitor    *eviction.Monitor
	eviction   *eviction.Manager
	shutdown   *nodeshutdown.Manager
	devices    *devicemanager.Manager
	cpus       *cpumanager.Manager

	// alive is the context of workers and probes. end cancels it.
	alive context.Context
	end   context.CancelCauseFunc
}

// New waits for the runtime until ctx ends, and makes the parts. It changes no pod.
func New(ctx context.Context, opts Options) (_ *Kubelet, err error) {
	if err := opts.complete(); err != nil {
		return nil, fmt.Errorf("kubelet: %w", err)
	}
	root, err := lockNode(ctx, opts)
	if err != nil {
		return nil, fmt.Errorf("kubelet: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, root.Release())
		}
	}()
	runtime, err := cri.Connect(ctx, cri.Options{
		Endpoint: opts.RuntimeEndpoint, ImageEndpoint: opts.ImageEndpoint, Timeout: opts.RuntimeTimeout,
		Owner: opts.Owner,
	})
	if err != nil {
		return nil, fmt.Errorf("kubelet: %w", err)
	}
	measured := metrics.New(opts.NodeName)
	runtime.RuntimeService = measured.Runtime(runtime.RuntimeService)
	images := imagemanager.NewImages(measured.Images(runtime.Images))
	runtime.Images = images // the node status and image collection refresh the cached list
	k := &Kubelet{opts: opts, root: root, metrics: measured, runtime: runtime, images: images,
		state:  cri.NewState(runtime),
		status: status.NewManager()}
	k.alive, k.end = context.WithCancelCause(context.WithoutCancel(ctx))
	if err := k.wire(ctx); err != nil {
		k.end(err)
		if k.cgroups != nil {
			k.cgroups.Close()
		}
		return nil, fmt.Errorf("kubelet: %w", errors.Join(err, runtime.Close(ctx)))
	}
	return k, nil
}

// lockNode locks the root directory. Unless Options.BesideKubelet is set, it fails if a kubelet runs on this machine.
func lockNode(ctx context.Context, opts Options) (*nodelock.Root, error) {
	if !opts.BesideKubelet {
		if err := nodelock.NoKubelet(ctx, opts.NodeIPs); err != nil {
			return nil, err
		}
	}
	if opts.LeaveNothing {
		return nodelock.LockWholeRoot(opts.RootDir, opts.Owner)
	}
	return nodelock.LockRoot(opts.RootDir, opts.Owner)
}

// wire makes the parts, each after the parts that it uses.
func (k *Kubelet) wire(ctx context.Context) error {
	host, err := cgroup.Inspect()
	if err != nil {
		return err
	}
	recorder, objects, rejected := events.New(k.opts.NodeName), podconfig.NewObjects(), admission.NewRejections()
	cache := pleg.NewCache(k.runtime)
	k.pleg = pleg.New(pleg.Options{Runtime: k.runtime, Cache: cache, Relist: k.opts.Relist, NoEvents: k.opts.NoEvents,
		Relisted: k.metrics.Relisted})
	k.prober = prober.New(k.alive, prober.Options{
		Exec: k.runtime, HostIP: k.opts.nodeIPs.primary,
		Unhealthy: probeEvent(recorder, "Unhealthy", "%s probe failed: %s"),
		Warning:   probeEvent(recorder, "ProbeWarning", "%s probe warning: %s"),
		Errored:   probeEvent(recorder, "Unhealthy", "%s probe errored and resulted in unknown state: %s"),
		Probed:    k.metrics.Probed,
	})
	k.monitor = eviction.NewMonitor(eviction.MonitorOptions{
		Thresholds: k.opts.thresholds, Transition: k.opts.PressureTransition, RootDir: k.opts.RootDir,
		ImageDir: k.runtime.ImageDirectory(ctx), Allocatable: allocatableMemory(host, k.opts.Cluster.Reserved),
	})
	k.shutdown = nodeshutdown.New(k.opts.shutdownPeriods)
	kept, err := k.openRecords(recorder)
	if err != nil {
		return err
	}
	k.devices, k.cpus = kept.devices, kept.cpus
	if k.cluster, err = k.newCluster(objects, recorder); err != nil {
		return err
	}
	users := &hostUsers{ids: kept.ids, runtime: k.runtime, handler: k.cluster.RuntimeHandler}
	steps, err := k.newSteps(ctx, host, cache, recorder, objects, kept, users)
	if err != nil {
		return err
	}
	k.events, k.cgroups, k.volumes = recorder, steps.Cgroups, steps.Volumes
	k.workers = podworkers.New(k.alive, podworkers.Options{
		PodSyncer: k.metrics.Pods(podsync.New(steps), k.phase),
		Resync:    k.opts.Resync, Retry: k.opts.Retry,
		NameInUse: k.pleg.NameInUse, Ended: k.cluster.PodFinished, Again: k.cluster.PodAgain,
	})
	admitter := admission.NewAdmitter(admission.Options{
		Node: k.cluster, Active: func() []*v1.Pod {
			return kept.allocated.AllocatedPods(k.workers.Active())
		}, Observed: k.pleg.Has,
		ShutdownErr: k.shutdown.Err, AllowedUnsafeSysctls: k.opts.AllowedUnsafeSysctls,
		Preempt: func(pod *v1.Pod, why model.Failure) {
			k.workers.End(pod.UID, podworkers.Termination{Reason: "preempted: " + why.Message, Failure: &why})
		},
		Rejections: rejected, Status: k.status, Events: recorder,
	})
	config := k.newPodConfig(admitter, recorder)
	k.cleaner = housekeeping.NewCleaner(housekeeping.CleanerOptions{
		PodConfig: config, PLEG: k.pleg, Cache: cache, Workers: k.workers, Rejections: rejected, Status: k.status,
		Volumes: steps.Volumes, Cgroups: steps.Cgroups,
	})
	k.collectors = housekeeping.NewCollectors(housekeeping.CollectorsOptions{
		Runtime: k.runtime, Cache: cache, RuntimeErr: k.runtimeErr, PodConfig: config, Workers: k.workers,
		PodLogsDir: k.opts.PodLogsDir,
		Pulled:     kept.pulled, Access: kept.access, GC: k.opts.GC, Logs: k.opts.Logs,
		Event: recorder.RecordNode,
	})
	k.stats = podstats.New(podstats.Options{
		Runtime: k.runtime, Selector: map[string]string{model.LabelOwner: k.opts.Owner}, PodLogsDir: k.opts.PodLogsDir,
		OnDisk: k.volumes.OnDisk,
	})
	k.eviction = k.newEviction(kept.allocated)
	k.sources = newPodSources(k.opts, config, objects, k.cluster, recorder)
	k.loop = &syncLoop{
		tick: k.opts.SyncTick, housekeeping: k.opts.Housekeeping, hostIPs: k.opts.nodeIPs.list,
		runtimeErr: k.runtimeErr, config: config, objects: objects, pleg: k.pleg, prober: k.prober, cache: cache,
		workers: k.workers, admitter: admitter, rejected: rejected, cleaner: k.cleaner, cluster: k.cluster,
		status: k.status, events: recorder, allocation: kept.allocated, userIDs: kept.ids, devices: kept.devices,
		cpus: kept.cpus,
	}
	k.endpoints, err = listen(k.opts,
		nodeapi.Options{Address: k.opts.ReadAddress, Reads: k.reads(), Events: recorder.List},
		apiRuntime{k.runtime, cache}, k.cluster)
	return err
}

// phase returns the last known phase of a pod.
func (k *Kubelet) phase(pod *v1.Pod) v1.PodPhase { return k.status.Status(pod).Phase }

// newCluster makes the client of the API server.
func (k *Kubelet) newCluster(static volumekinds.Objects, recorder *events.Recorder) (*apiserver.Cluster, error) {
	opts := k.opts.Cluster
	return apiserver.New(apiserver.Options{
		Kubeconfig: opts.Kubeconfig,
		Node: apiserver.NodeOptions{
			Name: k.opts.NodeName, IPs: k.opts.nodeIPs.list, Labels: opts.Labels, Taints: opts.Taints,
			MaxPods: opts.MaxPods, Reserved: opts.Reserved, StatusEvery: opts.StatusEvery, Port: k.opts.API.Port,
			RootDir: k.opts.RootDir, Pressure: k.monitor.Pressure, Kept: k.monitor.Kept, ShutdownErr: k.shutdown.Err,
			Devices: k.devices.Resources,
		},
		Runtime: k.runtime, State: k.state, PLEGErr: k.pleg.Err, Static: static, Status: k.status, Events: recorder,
	})
}

// newSteps makes the parts for the steps of pods: cgroups, volumes, containers.
func (k *Kubelet) newSteps(
	ctx context.Context, host cgroup.Host, cache *pleg.Cache, recorder *events.Recorder, claims volumekinds.Claims,
	kept records, users *hostUsers,
) (podsync.Options, error) {
	reported, err := k.runtime.CgroupDriver(ctx)
	if err != nil {
		return podsync.Options{}, err
	}
	driver := cmp.Or(cgroup.Driver(reported), k.opts.CgroupDriver) // an empty driver leaves the cgroups to the runtime
	left, err := allocatable(host.Capacity(), k.opts.Cluster.Reserved)
	if err := errors.Join(err, checkSlices(driver, k.opts.CgroupRoot),
		podspec.CheckSwapBehavior(k.opts.SwapBehavior, host)); err != nil {
		return podsync.Options{}, err
	}
	cgroups := cgroup.New(ctx, cgroup.Options{
		Root: k.opts.CgroupRoot, Driver: driver, Allocatable: left, PodPids: k.opts.PodPids,
		Unthrottled: kept.cpus.Exclusive, Measure: k.metrics.CgroupDone,
	})
	inNode := func() v1.ResourceList { return k.cluster.Node().Status.Allocatable }
	volumes := volumemanager.New(volumemanager.Options{
		RootDir: k.opts.RootDir, Allocatable: inNode, Objects: k.cluster.Objects(), Tokens: k.cluster.Tokens(),
		ClaimsDir: k.opts.ClaimsDir, Claims: claims, Measure: k.metrics.VolumeMounted,
	})
	specs := podspec.New(podspec.Options{
		NodeName: k.opts.NodeName, NodeIPs: k.opts.nodeIPs.list, RootDir: k.opts.RootDir, PodLogsDir: k.opts.PodLogsDir,
		Owner: k.opts.Owner, Volumes: volumes, Objects: k.cluster.Objects(), Services: k.cluster.ServiceEnvironment(),
		ClusterDNS: k.opts.ClusterDNS, ClusterDomain: k.opts.ClusterDomain, ResolvConf: k.opts.ResolvConf,
		FirstUserID: users.first, Cgroups: cgroups, Host: host, Allocatable: inNode,
		RecursiveReadOnly: k.runtime.RecursiveReadOnlyMounts(ctx),
		SeccompDefault:    k.opts.SeccompDefault, SwapBehavior: k.opts.SwapBehavior,
		Devices: kept.devices.Apply, CPUs: kept.cpus.Apply,
		Warn: recorder.Warn,
	})
	return podsync.Options{
		Cache: cache, RuntimeErr: k.runtimeErr, NetworkErr: k.state.Network, Volumes: volumes, Cgroups: cgroups,
		Prober: k.prober, Status: k.status,
		Allocation: kept.allocated,
		Events:     recorder, RuntimeName: k.runtime.Name, HostIPs: k.opts.nodeIPs.list,
		Runtime: kuberuntime.New(kuberuntime.Options{
			Runtime: k.runtime, Specs: specs, Events: recorder, Allocation: kept.allocated,
			RuntimeHandler: k.cluster.RuntimeHandler, Backoff: k.opts.CrashBackoff,
			SandboxReady: k.status.SetSandboxReady,
			Images: imagemanager.New(imagemanager.Options{
				Service: k.images, Secrets: k.cluster.Objects(), Backoff: k.opts.PullBackoff,
				Parallel: k.opts.ParallelPulls,
				Pulled:   kept.pulled, Files: credentialFiles(k.opts.RootDir),
				Access: kept.access, Verification: k.opts.ImageVerification, Allowlist: k.opts.ImageAllowlist,
			}),
		}),
	}, nil
}

func (k *Kubelet) newPodConfig(admitter *admission.Admitter, recorder *events.Recorder) *podconfig.PodConfig {
	return podconfig.New(podconfig.Options{
		Sources:    sourceNames(k.opts),
		Checkpoint: &podconfig.Checkpoint{Path: filepath.Join(k.opts.RootDir, "pods.json")},
		Refused:    refuse(admitter, recorder), Problem: recorder.SourceProblem("Checkpoint"),
	})
}

// probeEvent returns a function that records an event of a probe. The arguments of the format message are the probe's
// type and the reason.
func probeEvent(
	recorder *events.Recorder, reason, message string,
) func(pod *v1.Pod, container string, probe prober.Type, why string) {
	return func(pod *v1.Pod, container string, probe prober.Type, why string) {
		recorder.Record(
			events.Event{Pod: pod, Container: container, Warning: true, Reason: reason,
				Message: fmt.Sprintf(message, probe, why)})
	}
}

// reads are the contents of both endpoints.
func (k *Kubelet) reads() nodeapi.Reads {
	return nodeapi.Reads{
		Config: nodeapi.Config{
			Node: k.opts.NodeName, Owner: k.opts.Owner, RuntimeEndpoint: k.opts.RuntimeEndpoint,
			Runtime:   k.runtime.Name,
			Manifests: k.opts.Manifests, RootDir: k.opts.RootDir, PodLogsDir: k.opts.PodLogsDir,
		},
		Pods: k.Pods, Healthy: k.Healthy, RuntimeErr: k.runtimeErr, Evented: k.pleg.Streaming,
		Stats: k.runtime, Selector: map[string]string{model.LabelOwner: k.opts.Owner},
		Usage: k.stats.Last, ClaimPaths: k.volumes.ClaimPaths, Measured: k.metrics.Gatherer(),
		Probes: k.metrics.Probes(), SentEvents: k.cluster.EventCounts(),
	}
}

// Run runs the pods until caller ends, and then returns nil. If a part fails, Run ends early with its error. The pods
// keep running, unless Options.LeaveNothing is set. Then Run also returns the errors of their removal.
func (k *Kubelet) Run(caller context.Context) (err error) {
	ctx, cancel := context.WithCancelCause(caller)
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() { k.end(context.Cause(ctx)) })()
	var parts sync.WaitGroup
	defer func() {
		cancel(nil)
		k.end(nil)
		parts.Wait()
		k.workers.Wait()
		k.prober.Wait()
		if k.opts.LeaveNothing {
			err = errors.Join(err, k.leaveNothing(context.WithoutCancel(ctx)))
		}
		k.cgroups.Close()
		if err := k.runtime.Close(context.WithoutCancel(ctx)); err != nil {
			log.G(ctx).WithError(err).Debug("closing the connection to the container runtime failed")
		}
		if err := k.root.Release(); err != nil {
			log.G(ctx).WithError(err).Debug("releasing the root directory failed")
		}
	}()
	for _, part := range k.parts() {
		parts.Go(func() {
			if err := part(ctx); err != nil && ctx.Err() == nil {
				cancel(err)
			}
		})
	}
	log.G(ctx).WithFields(log.Fields{
		"node": k.opts.NodeName, "runtime": k.runtime.Name, "version": k.runtime.Version, "manifests": k.opts.Manifests,
	}).Info("kubelet core started")
	k.loop.run(ctx)
	if caller.Err() != nil {
		return nil
	}
	return context.Cause(ctx) // a part's error, which may wrap context.Canceled
}

// parts run concurrently with the sync loop.
func (k *Kubelet) parts() []func(context.Context) error {
	return []func(context.Context) error{
		k.sources.run, k.endpoints.runReadOnly, k.endpoints.runNodeAPI, k.collectors.Run, k.evict, k.runShutdown,
		k.devices.Run, k.cpus.Run,
		func(ctx context.Context) error { return k.cluster.Run(ctx, k.cleaner.Finished) },
		func(ctx context.Context) error {
			k.pleg.Run(ctx)
			return nil
		},
		func(ctx context.Context) error {
			k.state.Run(ctx, k.opts.runtimeCheck, func() {
				k.cluster.WakeNodeStatus()
				k.workers.WakeAll() // pods may wait for the network
			})
			return nil
		},
	}
}

// runtimeErr returns why the runtime cannot be used, or nil. It ignores the pod network: the network plugin may be a
// pod in the host's network. SyncPod holds back pods that need the pod network.
func (k *Kubelet) runtimeErr() error {
	return cmp.Or(k.state.Runtime(), k.pleg.Err())
}

// Healthy returns nil while the sync loop makes progress (SyncLoopHealthCheck of pkg/kubelet/kubelet.go). The loop
// rests while the runtime cannot be used. An outage counts only after minutes: a restart of the runtime must not
// restart the kubelet.
func (k *Kubelet) Healthy() error {
	if err := k.loop.monitor.err(k.opts.Resync); err != nil {
		return errors.Join(err, k.runtimeErr())
	}
	return nil
}

// SourcesSeen returns a channel that is closed when every source has listed its pods.
func (k *Kubelet) SourcesSeen() <-chan struct{} { return k.sources.config.AllSeen() }

// PodCount returns the number of pods that the sources list.
func (k *Kubelet) PodCount() int { return k.sources.config.Count() }

// ReadAddress returns the address of the read-only endpoint, or "" if the endpoint is turned off.
func (k *Kubelet) ReadAddress() string { return k.endpoints.readAddress() }

// Pods returns all pods with their statuses, by namespace and name. The caller must not change them.
func (k *Kubelet) Pods() []*v1.Pod { return k.status.List() }

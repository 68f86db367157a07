package kubelet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/sirupsen/logrus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/criadapter/criadapter/kubelet/cgroup"
	"github.com/criadapter/criadapter/kubelet/config"
	"github.com/criadapter/criadapter/kubelet/container"
	"github.com/criadapter/criadapter/kubelet/cri"
	"github.com/criadapter/criadapter/kubelet/events"
	"github.com/criadapter/criadapter/kubelet/images"
	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/kubelet/node"
	"github.com/criadapter/criadapter/kubelet/objects"
	"github.com/criadapter/criadapter/kubelet/pleg"
	"github.com/criadapter/criadapter/kubelet/podspec"
	"github.com/criadapter/criadapter/kubelet/podworkers"
	"github.com/criadapter/criadapter/kubelet/prober"
	"github.com/criadapter/criadapter/kubelet/server"
	"github.com/criadapter/criadapter/kubelet/status"
	"github.com/criadapter/criadapter/kubelet/volume"
)

// Kubelet is the whole, wired. Make one with New, and call Run once.
type Kubelet struct {
	opts    Options
	runtime *cri.Runtime
	events  *events.Recorder
	objects *config.Objects
	mux     *config.Mux
	volumes *volume.Manager
	cgroups *cgroup.Manager
	host    cgroup.Host
	actor   *container.Actor
	cache   *pleg.Cache
	pleg    *pleg.Generator
	status  *status.Store
	workers *podworkers.Workers
	prober  *prober.Manager
	node    *node.Reporter
	// endpoint and api are nil when they are not wanted, server when there is no cluster.
	endpoint *server.Server
	api      *server.API
	server   *apiServer
	ready    *runtimeState
	rejected *rejections

	mu      sync.Mutex
	waiting map[types.UID]map[string]*model.ReasonError // of the last sync, by container name
}

// New connects to the runtime, for which it waits as long as ctx lasts, and wires the parts. Nothing is done to pods yet.
func New(ctx context.Context, opts Options) (*Kubelet, error) {
	if err := opts.complete(); err != nil {
		return nil, fmt.Errorf("kubelet: %w", err)
	}
	if err := os.MkdirAll(opts.RootDir, 0o755); err != nil {
		return nil, fmt.Errorf("kubelet: %w", err)
	}
	runtime, err := cri.Connect(ctx, cri.Options{
		Endpoint: opts.RuntimeEndpoint, ImageEndpoint: opts.ImageEndpoint, Timeout: opts.RuntimeTimeout, Owner: opts.Owner,
	})
	if err != nil {
		return nil, fmt.Errorf("kubelet: %w", err)
	}
	k := &Kubelet{
		opts: opts, runtime: runtime, events: events.New(opts.NodeName), objects: config.NewObjects(), status: status.NewStore(),
		cache: pleg.NewCache(runtime), rejected: &rejections{pods: map[types.UID]*v1.Pod{}},
		waiting: map[types.UID]map[string]*model.ReasonError{},
	}
	if err := k.wire(ctx); err != nil {
		return nil, fmt.Errorf("kubelet: %w", errors.Join(err, runtime.Close(ctx)))
	}
	return k, nil
}

// wire makes the parts, each after those that it needs.
func (k *Kubelet) wire(ctx context.Context) error {
	opts := k.opts
	k.mux = config.NewMux(config.Options{
		Sources:    k.sources(),
		Checkpoint: &config.Checkpoint{Path: filepath.Join(opts.RootDir, "pods.json")},
		Refused:    k.refused, Problem: k.problem("Checkpoint"),
	})
	k.ready = newRuntimeState(k.runtime, k.runtimeChanged)
	k.pleg = pleg.New(pleg.Options{Runtime: k.runtime, Cache: k.cache, Relist: opts.Relist, NoEvents: opts.NoEvents})
	if err := k.newAPIServer(); err != nil {
		return err
	}
	if err := k.newNode(ctx); err != nil {
		return err
	}
	var err error
	if k.host, err = cgroup.Inspect(); err != nil {
		return err
	}
	k.cgroups = newCgroups(ctx, k.runtime, opts.CgroupRoot, opts.CgroupDriver)
	seen, volumes := k.podObjects(), volume.Options{RootDir: opts.RootDir, Node: k.host.Capacity()}
	volumes.Objects = seen
	if k.server != nil {
		volumes.Tokens = k.server.tokens
	}
	k.volumes = volume.New(volumes)
	k.actor = container.NewActor(container.Options{
		Runtime: k.runtime, Specs: k.generator(ctx, seen), Events: k.events, Backoff: opts.CrashBackoff,
		Images: images.New(images.Options{
			Service: k.runtime.Images, Secrets: seen, Backoff: opts.PullBackoff, Parallel: opts.ParallelPulls,
		}),
	})
	return k.listen()
}

// podObjects answers which config maps and secrets a pod sees.
func (k *Kubelet) podObjects() volume.Objects {
	if k.server == nil {
		return k.objects
	}
	return objects.ByOrigin(k.objects, k.server.objects)
}

func (k *Kubelet) generator(ctx context.Context, seen volume.Objects) *podspec.Generator {
	opts := podspec.Options{
		NodeName: k.opts.NodeName, NodeIPs: k.opts.NodeIPs, RootDir: k.opts.RootDir, PodLogsDir: k.opts.PodLogsDir,
		Owner: k.opts.Owner, Volumes: k.volumes, Objects: seen,
		ClusterDNS: k.opts.ClusterDNS, ClusterDomain: k.opts.ClusterDomain, ResolvConf: k.opts.ResolvConf,
		Cgroups: k.cgroups, Host: k.host, RecursiveReadOnly: recursiveReadOnly(ctx, k.runtime),
		SeccompDefault: k.opts.SeccompDefault, AllowedUnsafeSysctls: k.opts.AllowedUnsafeSysctls,
		Warn: func(pod *v1.Pod, reason, message string) {
			k.events.Record(events.Event{Pod: pod, Warning: true, Reason: reason, Message: message})
		},
	}
	if k.server != nil {
		opts.Services = k.server.services.Environment
	}
	return podspec.New(opts)
}

// Run keeps the pods running until ctx ends, and returns nil then. Pods run on after it.
func (k *Kubelet) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	k.prober = prober.New(ctx, prober.Options{Exec: k.runtime, Unhealthy: k.unhealthy, HostIP: k.opts.NodeIPs[0]})
	k.workers = podworkers.New(ctx, podworkers.Options{
		Steps: k, Resync: k.opts.Resync, Retry: k.opts.Retry, NameHeld: k.nameHeld, Ended: k.ended,
	})
	var parts sync.WaitGroup
	defer func() {
		cancel(nil)
		parts.Wait()
		k.workers.Wait()
		k.prober.Wait()
		if err := k.runtime.Close(context.WithoutCancel(ctx)); err != nil {
			logrus.WithError(err).Debug("Hanging up failed")
		}
	}()
	for _, part := range k.parts() {
		parts.Go(func() {
			if err := part(ctx); err != nil && ctx.Err() == nil {
				cancel(err)
			}
		})
	}
	parts.Go(func() { k.ready.run(ctx, k.opts.RuntimeCheck) })
	parts.Go(func() { k.pleg.Run(ctx) })
	logrus.WithFields(logrus.Fields{
		"node": k.opts.NodeName, "runtime": k.runtime.Name, "version": k.runtime.Version, "manifests": k.opts.Manifests,
	}).Info("The kubelet core runs")
	k.syncLoop(ctx)
	if err := context.Cause(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// parts run beside the sync loop.
func (k *Kubelet) parts() []func(context.Context) error {
	parts := []func(context.Context) error{k.runSources, k.runEndpoint, k.runAPI, k.runCollectors}
	if k.server != nil {
		parts = append(parts, k.server.run, k.node.Run)
	}
	return parts
}

// runtimeChanged is told when the runtime became ready, or ceased to be.
func (k *Kubelet) runtimeChanged() { k.node.Wake() }

// nameHeld says whether the runtime runs another pod of that name: one whose manifest changed while no kubelet ran.
// Before the first list nobody knows, so the name counts as held.
func (k *Kubelet) nameHeld(fullName string, uid types.UID) bool {
	pods := k.pleg.Pods()
	if pods == nil {
		return true
	}
	for _, pod := range pods {
		if pod.UID == uid || pod.Name+"_"+pod.Namespace != fullName || !pod.Running() {
			continue
		}
		if seen := k.cache.Peek(pod.UID); seen == nil || seen.Alive() { // the list may be older
			return true
		}
	}
	return false
}

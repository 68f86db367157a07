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
	// endpoint is nil when none is wanted.
	endpoint *server.Server
	ready    *runtimeState

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
		cache: pleg.NewCache(runtime), ready: newRuntimeState(runtime), waiting: map[types.UID]map[string]*model.ReasonError{},
	}
	k.mux = config.NewMux(config.Options{
		Sources:    []string{model.SourceFile},
		Checkpoint: &config.Checkpoint{Path: filepath.Join(opts.RootDir, "pods.json")},
		Refused:    k.refused,
	})
	if k.host, err = cgroup.Inspect(); err != nil {
		return nil, fmt.Errorf("kubelet: %w", err)
	}
	k.cgroups = newCgroups(ctx, runtime, opts.CgroupRoot, opts.CgroupDriver)
	k.volumes = volume.New(volume.Options{RootDir: opts.RootDir, Objects: k.objects, Node: k.host.Capacity()})
	k.pleg = pleg.New(pleg.Options{Runtime: runtime, Cache: k.cache, Relist: opts.Relist, NoEvents: opts.NoEvents})
	k.actor = container.NewActor(container.Options{
		Runtime: runtime, Specs: k.generator(ctx), Events: k.events, Backoff: opts.CrashBackoff,
		Images: images.New(images.Options{Service: runtime.Images, Backoff: opts.PullBackoff, Parallel: opts.ParallelPulls}),
	})
	if err := k.listen(); err != nil {
		return nil, fmt.Errorf("kubelet: %w", errors.Join(err, runtime.Close(ctx)))
	}
	return k, nil
}

func (k *Kubelet) generator(ctx context.Context) *podspec.Generator {
	return podspec.New(podspec.Options{
		NodeName: k.opts.NodeName, NodeIPs: k.opts.NodeIPs, RootDir: k.opts.RootDir, PodLogsDir: k.opts.PodLogsDir,
		Owner: k.opts.Owner, Volumes: k.volumes, Objects: k.objects,
		ClusterDNS: k.opts.ClusterDNS, ClusterDomain: k.opts.ClusterDomain, ResolvConf: k.opts.ResolvConf,
		Cgroups: k.cgroups, Host: k.host, RecursiveReadOnly: recursiveReadOnly(ctx, k.runtime),
		SeccompDefault: k.opts.SeccompDefault, AllowedUnsafeSysctls: k.opts.AllowedUnsafeSysctls,
		Warn: func(pod *v1.Pod, reason, message string) {
			k.events.Record(events.Event{Pod: pod, Warning: true, Reason: reason, Message: message})
		},
	})
}

// Run keeps the pods running until ctx ends, and returns nil then. Pods run on after it.
func (k *Kubelet) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	k.prober = prober.New(ctx, prober.Options{Exec: k.runtime, Unhealthy: k.unhealthy, HostIP: k.opts.NodeIPs[0]})
	k.workers = podworkers.New(ctx, podworkers.Options{
		Steps: k, Resync: k.opts.Resync, Retry: k.opts.Retry, NameHeld: k.nameHeld,
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
	for _, part := range []func(context.Context) error{k.runSources, k.runEndpoint, k.runCollectors} {
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

// runSources restores the accepted pods and then lets the sources speak.
func (k *Kubelet) runSources(ctx context.Context) error {
	restored, err := k.mux.Restore(ctx)
	if err != nil {
		k.events.Record(events.Event{Warning: true, Reason: "CheckpointUnreadable", Message: err.Error()})
	}
	if k.opts.Manifests == "" {
		return k.mux.Set(ctx, model.SourceFile, nil)
	}
	folder := config.NewFolder(config.FolderOptions{
		Dir: k.opts.Manifests, NodeName: k.opts.NodeName, Rescan: k.opts.ManifestRescan, Problem: k.manifestProblem,
	}, k.mux, k.objects, restored)
	return folder.Run(ctx)
}

func (k *Kubelet) manifestProblem(path string, err error) {
	if err == nil {
		k.events.Record(events.Event{Reason: "ManifestRepaired", Message: path + " is right again"})
		return
	}
	k.events.Record(events.Event{Warning: true, Reason: "InvalidManifest", Message: fmt.Sprintf("%s: %v", path, err)})
}

func (k *Kubelet) refused(r config.Refusal) {
	k.events.Record(events.Event{Pod: r.Pod, Warning: true, Reason: "PodRefused", Message: r.Err.Error()})
}

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

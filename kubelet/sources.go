package kubelet

import (
	"context"
	"errors"
	"fmt"
	"sync"

	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/kubelet/admission"
	"github.com/criadapter/criadapter/kubelet/config"
	"github.com/criadapter/criadapter/kubelet/events"
	"github.com/criadapter/criadapter/kubelet/model"
)

// sources are the names of those that will speak.
func (k *Kubelet) sources() []string {
	sources := []string{model.SourceFile}
	if k.opts.ManifestURL != "" {
		sources = append(sources, model.SourceHTTP)
	}
	if k.opts.Cluster.Kubeconfig != "" {
		sources = append(sources, model.SourceAPI)
	}
	return sources
}

// runSources restores the accepted pods and then lets the sources speak, until ctx ends.
func (k *Kubelet) runSources(ctx context.Context) error {
	restored, err := k.mux.Restore(ctx)
	if err != nil {
		k.record(true, "CheckpointUnreadable", err.Error())
	}
	sources := []func(context.Context) error{func(ctx context.Context) error { return k.runFolder(ctx, restored) }}
	if k.opts.ManifestURL != "" {
		sources = append(sources, k.runURL)
	}
	if k.server != nil {
		sources = append(sources, k.runAPISource)
	}
	errs := make([]error, len(sources))
	var running sync.WaitGroup
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for i, source := range sources {
		running.Go(func() {
			if errs[i] = source(ctx); errs[i] != nil {
				cancel() // one that cannot go on ends the kubelet
			}
		})
	}
	running.Wait()
	k.mux.Wait()
	return errors.Join(errs...)
}

func (k *Kubelet) runFolder(ctx context.Context, restored []*v1.Pod) error {
	if k.opts.Manifests == "" {
		return k.mux.Set(ctx, model.SourceFile, nil)
	}
	return config.NewFolder(config.FolderOptions{
		Dir: k.opts.Manifests, NodeName: k.opts.NodeName, Rescan: k.opts.ManifestRescan, Problem: k.manifestProblem,
	}, k.mux, k.objects, restored).Run(ctx)
}

func (k *Kubelet) runURL(ctx context.Context) error {
	return config.NewURL(config.URLOptions{
		URL: k.opts.ManifestURL, Header: k.opts.ManifestHeader, NodeName: k.opts.NodeName, Every: k.opts.ManifestURLCheck,
		Problem: k.problem("ManifestURL"),
	}, k.mux).Run(ctx)
}

func (k *Kubelet) manifestProblem(path string, err error) {
	if err == nil {
		k.record(false, "ManifestRepaired", path+" is right again")
		return
	}
	k.record(true, "InvalidManifest", fmt.Sprintf("%s: %v", path, err))
}

// refused is told of pods whose name another source has. A static one waits for the name; one of the API server fails, so
// that its controller makes another.
func (k *Kubelet) refused(r config.Refusal) {
	const reason = "PodRefused"
	if !model.IsStatic(r.Pod) && !model.Terminal(r.Pod.Status.Phase) {
		k.reject(r.Pod, admission.Rejection{Reason: reason, Message: r.Err.Error()})
		return
	}
	k.events.Record(events.Event{Pod: r.Pod, Warning: true, Reason: reason, Message: r.Err.Error()})
}

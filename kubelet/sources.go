package kubelet

import (
	"context"
	"errors"
	"fmt"
	"sync"

	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/kubelet/admission"
	"github.com/criadapter/criadapter/kubelet/apiserver"
	"github.com/criadapter/criadapter/kubelet/events"
	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/kubelet/podconfig"
)

// podSources runs the sources of pods.
type podSources struct {
	file    podconfig.FileOptions
	url     podconfig.URLOptions
	config  *podconfig.PodConfig
	objects *podconfig.Objects
	cluster *apiserver.Cluster
	events  *events.Recorder
}

func newPodSources(
	opts Options, config *podconfig.PodConfig, objects *podconfig.Objects, cluster *apiserver.Cluster,
	recorder *events.Recorder,
) *podSources {
	return &podSources{
		file: podconfig.FileOptions{Dir: opts.Manifests, NodeName: opts.NodeName, Rescan: opts.ManifestRescan},
		url: podconfig.URLOptions{
			URL: opts.ManifestURL, Header: opts.ManifestHeader, NodeName: opts.NodeName, Every: opts.ManifestURLCheck,
		},
		config: config, objects: objects, cluster: cluster, events: recorder,
	}
}

// sourceNames returns the names of the configured sources.
func sourceNames(opts Options) []string {
	sources := []string{model.SourceFile}
	if opts.ManifestURL != "" {
		sources = append(sources, model.SourceHTTP)
	}
	if opts.Cluster.Kubeconfig != "" {
		sources = append(sources, model.SourceAPI)
	}
	return sources
}

// run restores the pods of the checkpoint, and runs the sources until ctx ends.
func (s *podSources) run(ctx context.Context) error {
	restored, err := s.config.Restore(ctx)
	if err != nil {
		s.events.RecordNode(true, "CheckpointUnreadable", err.Error())
	}
	sources := []func(context.Context) error{
		func(ctx context.Context) error { return s.runFile(ctx, restored) },
		s.runURL,
		func(ctx context.Context) error { return s.cluster.RunPodSource(ctx, s.config) },
	}
	errs := make([]error, len(sources))
	var running sync.WaitGroup
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for i, source := range sources {
		running.Go(func() {
			if errs[i] = source(ctx); errs[i] != nil {
				cancel() // a source that fails ends the kubelet
			}
		})
	}
	running.Wait()
	s.config.Wait()
	return errors.Join(errs...)
}

func (s *podSources) runFile(ctx context.Context, restored []*v1.Pod) error {
	if s.file.Dir == "" {
		return s.config.Set(ctx, model.SourceFile, nil)
	}
	s.file.Problem = s.manifestProblem
	return podconfig.NewFileSource(s.file, s.config, s.objects, restored).Run(ctx)
}

func (s *podSources) runURL(ctx context.Context) error {
	if s.url.URL == "" {
		return nil
	}
	s.url.Problem = s.events.SourceProblem("ManifestURL")
	return podconfig.NewURLSource(s.url, s.config).Run(ctx)
}

func (s *podSources) manifestProblem(path string, err error) {
	if err == nil {
		s.events.RecordNode(false, "ManifestRepaired", path+" is valid again")
		return
	}
	s.events.RecordNode(true, "InvalidManifest", fmt.Sprintf("%s: %v", path, err))
}

// refuse returns the reaction to a pod whose name a pod of another source has. A static pod waits for the name. A pod
// of the API server fails, so that its controller replaces it.
func refuse(admitter *admission.Admitter, recorder *events.Recorder) func(podconfig.Refusal) {
	return func(r podconfig.Refusal) {
		const reason = "PodRefused"
		if !model.IsStatic(r.Pod) && !model.Terminal(r.Pod.Status.Phase) {
			admitter.Reject(r.Pod, admission.Rejection{Reason: reason, Message: r.Err.Error()})
			return
		}
		recorder.Warn(r.Pod, reason, r.Err.Error())
	}
}

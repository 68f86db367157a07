package podconfig

import (
	"context"
	"slices"
	"sync"

	"github.com/containerd/log"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/criadapter/criadapter/kubelet/model"
)

// Refusal is a refused pod with the reason.
type Refusal struct {
	Pod *v1.Pod
	Err error
}

// Options configure a PodConfig.
type Options struct {
	// Sources has the names of all sources that will call Set.
	Sources []string
	// Checkpoint stores the accepted pods for a restart. Nil stores nothing.
	Checkpoint *Checkpoint
	// Refused is called for each refused pod, once per reason. It must not call Set. Nil logs the refusal.
	Refused func(Refusal)
	// Problem is called with an error when the checkpoint cannot be written, and again when the error changes. It is
	// called with nil when the checkpoint is written again. A nil Problem logs the errors.
	Problem func(where string, err error)
}

// PodConfig merges the pods of all sources into one stream of changes. It is safe for concurrent use.
type PodConfig struct {
	opts       Options
	updates    chan PodUpdate
	checkpoint checkpointWriter
	// observed serves the reader of Updates. It has its own lock, because mu is held while that reader is behind.
	observed *observed
	// allSeen is closed by sawAll.
	allSeen chan struct{}
	sawAll  func()

	mu      sync.Mutex
	storage podStorage
}

// New makes a PodConfig without pods.
func New(opts Options) *PodConfig {
	c := &PodConfig{opts: opts, updates: make(chan PodUpdate, 16), observed: newObserved(), storage: newPodStorage(),
		allSeen: make(chan struct{})}
	c.sawAll = sync.OnceFunc(func() { close(c.allSeen) })
	c.checkpoint = checkpointWriter{save: c.save, report: c.reportCheckpoint}
	return c
}

// Updates returns the stream of changes. It has one reader.
func (c *PodConfig) Updates() <-chan PodUpdate { return c.updates }

// SeenSource reports whether a source has called Set. Restored pods do not count.
func (c *PodConfig) SeenSource(source string) bool { return c.observed.hasAll([]string{source}) }

// SeenAllSources reports whether every source has called Set. Before that, a running pod that no source lists may only
// be late, and must not be killed. Restored pods do not count.
func (c *PodConfig) SeenAllSources() bool { return c.observed.hasAll(c.opts.Sources) }

// AllSeen returns a channel that is closed when every source has called Set.
func (c *PodConfig) AllSeen() <-chan struct{} { return c.allSeen }

// Count returns the number of pods in the last lists of all sources, accepted and refused.
func (c *PodConfig) Count() int { return c.observed.count() }

// Settled reports whether every source has called Set and the reader of Updates has received all resulting changes.
// Before that, an unknown pod may be on its way to the reader. Only the reader may call it, between two updates.
func (c *PodConfig) Settled() bool {
	return c.SeenAllSources() && len(c.updates) == 0 // in this order: a source is seen after its last update was sent
}

// HasPod reports whether a source's last Set had a pod of that UID, accepted or refused. It is true before the reader
// or Options.Refused receives the pod. After a later Set without the pod, it may stay true until all changes of that
// later Set have been sent.
func (c *PodConfig) HasPod(uid types.UID) bool { return c.observed.hasPod(uid) }

// MirrorPods returns all mirror pods of this node on the API server, by name. They must not be changed.
func (c *PodConfig) MirrorPods() []*v1.Pod { return c.observed.mirrorPods() }

// Restore adds the pods of the checkpoint as if their sources had listed them, and returns them. A source's first Set
// replaces them. Until then model.Restored is true for the API server's pods, because their statuses may be out of
// date. Pods of a source that is not in Options.Sources are left out, because no Set would ever replace them. If the
// checkpoint cannot be read, Restore returns an error and adds nothing.
func (c *PodConfig) Restore(ctx context.Context) ([]*v1.Pod, error) {
	if c.opts.Checkpoint == nil {
		return nil, nil
	}
	pods, err := c.opts.Checkpoint.load()
	if err != nil {
		return nil, err
	}
	pods = slices.DeleteFunc(pods, func(pod *v1.Pod) bool {
		return !slices.Contains(c.opts.Sources, pod.Annotations[model.AnnotationConfigSource])
	})
	bySource := map[string][]*v1.Pod{}
	for _, pod := range pods {
		pod.ResourceVersion = "" // marks the pod as restored, see model.Restored
		source := pod.Annotations[model.AnnotationConfigSource]
		bySource[source] = append(bySource[source], pod)
	}
	for source, pods := range bySource {
		if _, err := c.merge(ctx, source, pods); err != nil {
			return nil, err
		}
	}
	return pods, nil
}

// Set replaces all pods of a source. The caller must not change the given pods afterwards. Set waits while the reader
// of Updates is behind, at most until ctx ends. The checkpoint is written a moment later, once for many changes. ctx
// should end with the source.
func (c *PodConfig) Set(ctx context.Context, source string, pods []*v1.Pod) error {
	mirrorChanged := func(string) bool { return false }
	if source == model.SourceAPI {
		pods, mirrorChanged = c.observed.splitMirrors(pods)
	}
	c.observed.begin(source, pods)
	changed, err := c.merge(ctx, source, pods)
	if err != nil {
		return err
	}
	c.observed.complete(source, pods)
	if c.SeenAllSources() {
		c.sawAll()
	}
	err = c.reconcile(ctx, mirrorChanged)
	if c.opts.Checkpoint != nil && (changed || c.checkpoint.failed()) {
		c.checkpoint.schedule(ctx)
	}
	return err
}

// Wait returns when the checkpoint is written. Call it after the context of the last Set has ended.
func (c *PodConfig) Wait() { c.checkpoint.running.Wait() }

// merge takes a source's list, and checks the pods of other sources whose names may be free now.
func (c *PodConfig) merge(ctx context.Context, source string, pods []*v1.Pod) (changed bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.storage.listed[source] = pods
	for _, source := range append([]string{source}, c.storage.refusedElsewhere(source)...) {
		more, err := c.apply(ctx, source)
		changed = changed || more
		if err != nil {
			return changed, err
		}
	}
	return changed, nil
}

// apply accepts pods of the source's list and sends the changes. A change that was not sent is not accepted. The caller
// holds mu.
func (c *PodConfig) apply(ctx context.Context, source string) (changed bool, err error) {
	accepted, refusals := c.storage.choose(source)
	for _, refusal := range c.storage.refuse(source, refusals) {
		c.refused(ctx, refusal)
	}
	for _, update := range diff(source, c.storage.accepted[source], accepted) {
		if err := c.send(ctx, update); err != nil {
			return changed, err
		}
		changed = true
	}
	c.storage.accepted[source] = accepted
	return changed, nil
}

// reconcile sends the accepted static pods whose mirror pod changed.
func (c *PodConfig) reconcile(ctx context.Context, mirrorChanged func(fullName string) bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	update := PodUpdate{Op: Reconcile, Source: model.SourceAPI}
	for pod := range c.storage.pods() {
		if model.IsStatic(pod) && mirrorChanged(model.FullName(pod)) {
			update.Pods = append(update.Pods, pod.DeepCopy())
		}
	}
	if len(update.Pods) == 0 {
		return nil
	}
	slices.SortFunc(update.Pods, byName)
	return c.send(ctx, update)
}

func (c *PodConfig) send(ctx context.Context, update PodUpdate) error {
	select {
	case c.updates <- update:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// acceptedFrom returns the accepted pods of a source from one place.
func (c *PodConfig) acceptedFrom(source, location string) []*v1.Pod {
	c.mu.Lock()
	defer c.mu.Unlock()
	var pods []*v1.Pod
	for _, pod := range c.storage.accepted[source] {
		if place(pod) == location {
			pods = append(pods, pod)
		}
	}
	return pods
}

// save writes the checkpoint.
func (c *PodConfig) save() error {
	c.mu.Lock()
	pods := slices.Collect(c.storage.pods())
	c.mu.Unlock()
	return c.opts.Checkpoint.Save(pods)
}

func (c *PodConfig) refused(ctx context.Context, refusal Refusal) {
	if c.opts.Refused != nil {
		c.opts.Refused(refusal)
		return
	}
	pod := refusal.Pod
	log.G(ctx).WithError(refusal.Err).WithFields(log.Fields{"pod": pod.Namespace + "/" + pod.Name, "podUID": pod.UID}).
		Error("pod refused")
}

func (c *PodConfig) reportCheckpoint(ctx context.Context, err error) {
	path := c.opts.Checkpoint.Path
	switch {
	case c.opts.Problem != nil:
		c.opts.Problem(path, err)
	case err != nil:
		log.G(ctx).WithError(err).WithField("path", path).Error("checkpoint of accepted pods cannot be written")
	default:
		log.G(ctx).WithField("path", path).Info("checkpoint of accepted pods is written again")
	}
}

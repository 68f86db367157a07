package config

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/sirupsen/logrus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/criadapter/criadapter/kubelet/model"
)

// Refusal tells of a pod that Mux does not take.
type Refusal struct {
	Pod *v1.Pod
	Err error
}

// Options configure a Mux.
type Options struct {
	// Sources are the names of all sources that will call Set.
	Sources []string
	// Checkpoint keeps the accepted pods over a restart. Nil keeps nothing.
	Checkpoint *Checkpoint
	// Refused is called for each pod that is not taken, once as long as the reason is the same. It must not call the
	// Mux. Nil logs it.
	Refused func(Refusal)
	// Problem is called when what keeps the checkpoint from being written changed: with nil when it is written again. Nil
	// logs it.
	Problem func(where string, err error)
}

// Mux merges the sources into one stream of changes. It is safe for concurrent use.
type Mux struct {
	opts    Options
	updates chan Update
	saver   saver

	mu      sync.Mutex
	told    map[string][]*v1.Pod             // what a source named last, by source
	pods    map[string]map[types.UID]*v1.Pod // what of that is accepted
	refused map[string]map[types.UID]string  // what is not, and why

	// stateMu is a lock of its own: mu is held while the reader of Updates is behind, and the reader asks for these.
	stateMu sync.Mutex
	named   map[string]map[types.UID]bool // what each of them named last
	seen    map[string]bool               // sources that have spoken
	mirrors map[string]*v1.Pod            // by full name
}

// NewMux makes a mux without pods.
func NewMux(opts Options) *Mux {
	if opts.Refused == nil {
		opts.Refused = func(r Refusal) {
			logrus.WithError(r.Err).WithField("pod", model.FullName(r.Pod)).Error("A pod is refused")
		}
	}
	if opts.Problem == nil {
		opts.Problem = func(path string, err error) {
			if err != nil {
				logrus.WithError(err).WithField("checkpoint", path).Error("The accepted pods cannot be written down")
				return
			}
			logrus.WithField("checkpoint", path).Info("The accepted pods are written down again")
		}
	}
	m := &Mux{
		opts: opts, updates: make(chan Update, 16),
		told: map[string][]*v1.Pod{}, pods: map[string]map[types.UID]*v1.Pod{}, refused: map[string]map[types.UID]string{},
		seen: map[string]bool{}, named: map[string]map[types.UID]bool{}, mirrors: map[string]*v1.Pod{},
	}
	m.saver.save = m.save
	m.saver.tell = func(err error) { m.opts.Problem(m.opts.Checkpoint.Path, err) }
	return m
}

// Updates is the stream of changes. It has one reader.
func (m *Mux) Updates() <-chan Update { return m.updates }

// Restore adds the pods of the checkpoint, as if their sources had named them; a source's first Set replaces them. It
// returns what it added. Pods of a source that is not among Options.Sources are left out: nobody would ever replace them.
// A checkpoint that cannot be read is an error, and nothing is added.
func (m *Mux) Restore(ctx context.Context) ([]*v1.Pod, error) {
	if m.opts.Checkpoint == nil {
		return nil, nil
	}
	pods, err := m.opts.Checkpoint.Load()
	if err != nil {
		return nil, err
	}
	pods = slices.DeleteFunc(pods, func(pod *v1.Pod) bool {
		return !slices.Contains(m.opts.Sources, pod.Annotations[model.AnnotationConfigSource])
	})
	bySource := map[string][]*v1.Pod{}
	for _, pod := range pods {
		source := pod.Annotations[model.AnnotationConfigSource]
		bySource[source] = append(bySource[source], pod)
	}
	for source, pods := range bySource {
		if _, err := m.set(ctx, source, pods); err != nil {
			return nil, err
		}
	}
	return pods, nil
}

// Spoke says whether a source has told its pods once. What was restored does not count.
func (m *Mux) Spoke(source string) bool {
	m.stateMu.Lock()
	defer m.stateMu.Unlock()
	return m.seen[source]
}

// Ready says whether every source has told its pods once: before that, a running pod that no source named may only be
// late, and must not be killed. What was restored does not count.
func (m *Mux) Ready() bool {
	m.stateMu.Lock()
	defer m.stateMu.Unlock()
	for _, source := range m.opts.Sources {
		if !m.seen[source] {
			return false
		}
	}
	return true
}

// Set tells the whole set of a source's pods, which must not be changed afterwards. It waits while the reader of Updates
// is behind, at most as long as ctx. The checkpoint follows within a moment, once for many changes; ctx should last as
// long as the source.
func (m *Mux) Set(ctx context.Context, source string, pods []*v1.Pod) error {
	var concerned func(fullName string) bool // of static pods
	if source == model.SourceAPI {
		pods, concerned = m.takeMirrors(pods)
	}
	m.name(source, pods)
	changed, err := m.set(ctx, source, pods)
	if err != nil {
		return err
	}
	m.spoke(source, pods)
	if concerned != nil {
		err = m.reconcile(ctx, concerned)
	}
	if m.opts.Checkpoint != nil && (changed || m.saver.failed()) {
		m.saver.soon(ctx)
	}
	return err
}

// name adds to the pods that a source names, before anybody is told of them: who is told asks Names at once.
func (m *Mux) name(source string, pods []*v1.Pod) {
	uids := uidsOf(pods)
	m.stateMu.Lock()
	defer m.stateMu.Unlock()
	maps.Copy(uids, m.named[source])
	m.named[source] = uids
}

// spoke keeps that a source has told all its pods, and that it names no others.
func (m *Mux) spoke(source string, pods []*v1.Pod) {
	uids := uidsOf(pods)
	m.stateMu.Lock()
	defer m.stateMu.Unlock()
	m.seen[source], m.named[source] = true, uids
}

func uidsOf(pods []*v1.Pod) map[types.UID]bool {
	uids := make(map[types.UID]bool, len(pods))
	for _, pod := range pods {
		uids[pod.UID] = true
	}
	return uids
}

// Names says whether a source named a pod of that UID when it spoke last, whether it was accepted or not. It is true
// before Updates or Options.Refused tell of the pod, and may stay so until all that the source told has been sent.
func (m *Mux) Names(uid types.UID) bool {
	m.stateMu.Lock()
	defer m.stateMu.Unlock()
	for _, uids := range m.named {
		if uids[uid] {
			return true
		}
	}
	return false
}

// Wait returns when the checkpoint holds what was told. Call it after the context of the last Set has ended.
func (m *Mux) Wait() { m.saver.running.Wait() }

func (m *Mux) set(ctx context.Context, source string, pods []*v1.Pod) (changed bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.told[source] = pods
	changed, err = m.apply(ctx, source)
	for _, other := range slices.Sorted(maps.Keys(m.refused)) {
		if err != nil || other == source {
			continue // a name may be free now for one that another source told before
		}
		var more bool
		more, err = m.apply(ctx, other)
		changed = changed || more
	}
	return changed, err
}

// apply accepts what it can of what the source told, and sends what changed. The caller holds mu.
func (m *Mux) apply(ctx context.Context, source string) (changed bool, err error) {
	accepted, refusals := m.choose(source, m.told[source])
	m.refuse(source, refusals)
	for _, update := range diff(source, m.pods[source], accepted) {
		if err := m.send(ctx, update); err != nil {
			return changed, err
		}
		changed = true
	}
	m.pods[source] = accepted
	return changed, nil
}

func (m *Mux) send(ctx context.Context, update Update) error {
	select {
	case m.updates <- update:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// refuse tells of refusals that are new. The caller holds mu.
func (m *Mux) refuse(source string, refusals []Refusal) {
	why := map[types.UID]string{}
	for _, r := range refusals {
		why[r.Pod.UID] = r.Err.Error()
		if m.refused[source][r.Pod.UID] != r.Err.Error() {
			m.opts.Refused(r)
		}
	}
	m.refused[source] = why
	if len(why) == 0 {
		delete(m.refused, source)
	}
}

// acceptedFrom are the pods of a source that come from one place.
func (m *Mux) acceptedFrom(source, location string) []*v1.Pod {
	m.mu.Lock()
	defer m.mu.Unlock()
	var pods []*v1.Pod
	for _, pod := range m.pods[source] {
		if place(pod) == location {
			pods = append(pods, pod)
		}
	}
	return pods
}

// save writes the checkpoint.
func (m *Mux) save() error {
	var pods []*v1.Pod
	m.mu.Lock()
	for _, accepted := range m.pods {
		pods = slices.AppendSeq(pods, maps.Values(accepted))
	}
	m.mu.Unlock()
	return m.opts.Checkpoint.Save(pods)
}

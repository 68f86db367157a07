package config

import (
	"context"
	"fmt"
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
	// Checkpoint keeps the accepted static pods over a restart. Nil keeps nothing.
	Checkpoint *Checkpoint
	// Refused is called for each pod that is not taken, each time its source names it. It must not call the Mux. Nil
	// logs it.
	Refused func(Refusal)
}

// Mux merges the sources into one stream of changes. It is safe for concurrent use.
type Mux struct {
	opts    Options
	updates chan Update

	mu   sync.Mutex
	pods map[string]map[types.UID]*v1.Pod // by source

	// seenMu is a lock of its own: mu is held while the reader of Updates is behind, and the reader asks Ready.
	seenMu sync.Mutex
	seen   map[string]bool // sources that have spoken
}

// NewMux makes a mux without pods.
func NewMux(opts Options) *Mux {
	if opts.Refused == nil {
		opts.Refused = func(r Refusal) {
			logrus.WithError(r.Err).WithField("pod", model.FullName(r.Pod)).Error("A pod is refused")
		}
	}
	return &Mux{
		opts: opts, updates: make(chan Update, 16),
		pods: map[string]map[types.UID]*v1.Pod{}, seen: map[string]bool{},
	}
}

// Updates is the stream of changes. It has one reader.
func (m *Mux) Updates() <-chan Update { return m.updates }

// Restore adds the pods of the checkpoint, as if their sources had named them; a source's first Set replaces them. It
// returns what it added. A checkpoint that cannot be read is an error, and nothing is added.
func (m *Mux) Restore(ctx context.Context) ([]*v1.Pod, error) {
	if m.opts.Checkpoint == nil {
		return nil, nil
	}
	pods, err := m.opts.Checkpoint.Load()
	if err != nil {
		return nil, err
	}
	bySource := map[string][]*v1.Pod{}
	for _, pod := range pods {
		source := pod.Annotations[model.AnnotationConfigSource]
		bySource[source] = append(bySource[source], pod)
	}
	for source, pods := range bySource {
		if err := m.set(ctx, source, pods); err != nil {
			return nil, err
		}
	}
	return pods, nil
}

// Ready says whether every source has told its pods once: before that, a running pod that no source named may only be
// late, and must not be killed.
func (m *Mux) Ready() bool {
	m.seenMu.Lock()
	defer m.seenMu.Unlock()
	for _, source := range m.opts.Sources {
		if !m.seen[source] {
			return false
		}
	}
	return true
}

// Set tells the whole set of a source's pods. It waits while the reader of Updates is behind, at most as long as ctx.
func (m *Mux) Set(ctx context.Context, source string, pods []*v1.Pod) error {
	if err := m.set(ctx, source, pods); err != nil {
		return err
	}
	m.seenMu.Lock()
	m.seen[source] = true
	m.seenMu.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.save()
}

func (m *Mux) set(ctx context.Context, source string, pods []*v1.Pod) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	accepted, refused := m.choose(source, pods)
	for _, r := range refused {
		m.opts.Refused(r)
	}
	for _, update := range diff(source, m.pods[source], accepted) {
		select {
		case m.updates <- update:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	m.pods[source] = accepted
	return nil
}

// save writes the checkpoint. The caller holds mu.
func (m *Mux) save() error {
	if m.opts.Checkpoint == nil {
		return nil
	}
	var static []*v1.Pod
	for _, pods := range m.pods {
		for _, pod := range pods {
			if model.IsStatic(pod) {
				static = append(static, pod)
			}
		}
	}
	return m.opts.Checkpoint.Save(static)
}

// choose leaves one pod per full name and UID. A name belongs to the place (source and manifest) that has it now; a
// second place gets it when the first one lets go. The caller holds mu.
func (m *Mux) choose(source string, pods []*v1.Pod) (map[types.UID]*v1.Pod, []Refusal) {
	names := map[string]*v1.Pod{} // holder by full name
	for other, theirs := range m.pods {
		for _, pod := range theirs {
			if other != source || named(pods, pod) {
				names[model.FullName(pod)] = pod
			}
		}
	}
	accepted := map[types.UID]*v1.Pod{}
	taken := map[string]bool{}
	var refused []Refusal
	for _, pod := range pods {
		name := model.FullName(pod)
		holder := names[name]
		switch {
		case holder != nil && place(holder) != place(pod) && !model.IsMirror(pod):
			refused = append(refused, Refusal{pod, fmt.Errorf("metadata.name: %s is the name of a pod from %s", pod.Name, place(holder))})
		case taken[name]:
			refused = append(refused, Refusal{pod, fmt.Errorf("metadata.name: %s stands twice in %s", pod.Name, place(pod))})
		case accepted[pod.UID] != nil:
			refused = append(refused, Refusal{pod, fmt.Errorf("metadata.uid: %s is the UID of %s, too", pod.UID, accepted[pod.UID].Name)})
		default:
			accepted[pod.UID], taken[name], names[name] = pod, true, pod
		}
	}
	return accepted, refused
}

// named says whether holder's place still names a pod of its name.
func named(pods []*v1.Pod, holder *v1.Pod) bool {
	for _, pod := range pods {
		if model.FullName(pod) == model.FullName(holder) && place(pod) == place(holder) {
			return true
		}
	}
	return false
}

// place is where a pod comes from, for comparing and for messages.
func place(pod *v1.Pod) string {
	if manifest := pod.Annotations[model.AnnotationManifest]; manifest != "" {
		return manifest
	}
	if source := pod.Annotations[model.AnnotationConfigSource]; source != "" {
		return source
	}
	return model.SourceAPI
}

package eviction

import (
	"context"
	"maps"
	"time"

	"github.com/containerd/log"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/criadapter/criadapter/kubelet/events"
	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/kubelet/podstats"
)

// interval is how often the manager looks, as the kubelet's.
const interval = 10 * time.Second

// Options configure a Manager. All are required.
type Options struct {
	// Pods lists the pods that run, with the resources that they are allocated.
	Pods func() []*v1.Pod
	// Stats is what pods use; after an error it is what could be found out.
	Stats func(ctx context.Context, pods []*v1.Pod) (map[types.UID]podstats.Pod, error)
	// Evict ends a pod at once; false says that it is over already. It does not wait for the end.
	Evict  func(pod *v1.Pod, why model.Failure) bool
	Events *events.Recorder
}

// Manager evicts pods.
type Manager struct {
	opts Options
	// spared are the critical pods that were found over a limit, so that each is told of once.
	spared map[types.UID]bool
}

// New makes a manager.
func New(opts Options) *Manager { return &Manager{opts: opts, spared: map[types.UID]bool{}} }

// Run looks until ctx ends, and returns nil then.
func (m *Manager) Run(ctx context.Context) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			m.synchronize(ctx)
		}
	}
}

// synchronize looks once.
func (m *Manager) synchronize(ctx context.Context) {
	pods := m.opts.Pods()
	stats, err := m.opts.Stats(ctx, pods)
	if err != nil && ctx.Err() == nil {
		log.G(ctx).WithError(err).Warn("what pods use is not known completely: eviction goes by what is")
	}
	known := map[types.UID]bool{}
	for _, pod := range pods {
		known[pod.UID] = true
	}
	maps.DeleteFunc(m.spared, func(uid types.UID, _ bool) bool { return !known[uid] })
	for _, pod := range pods {
		if message := overLimit(pod, stats[pod.UID]); message != "" {
			m.evict(ctx, pod, model.Failure{Reason: model.ReasonEvicted, Message: message})
		}
	}
}

// evict ends a pod unless the node needs it.
func (m *Manager) evict(ctx context.Context, pod *v1.Pod, why model.Failure) (evicted bool) {
	if model.IsCritical(pod) {
		if !m.spared[pod.UID] {
			log.G(ctx).WithFields(log.Fields{"pod": model.Key(pod), "podUID": pod.UID, "message": why.Message}).Warn("a critical pod is not evicted")
		}
		m.spared[pod.UID] = true
		return false
	}
	if !m.opts.Evict(pod, why) {
		return false
	}
	m.opts.Events.Record(events.Event{Pod: pod, Warning: true, Reason: why.Reason, Message: why.Message})
	return true
}

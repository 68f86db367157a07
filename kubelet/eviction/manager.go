package eviction

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/containerd/log"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/criadapter/criadapter/kubelet/events"
	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/kubelet/podstats"
)

// The kubelet's figures.
const (
	// interval is the period of synchronize.
	interval = 10 * time.Second
	// cleanUp bounds the wait for the end of evicted pods, whose memory and disk count until then.
	cleanUp = 30 * time.Second
	// cleanUpCheck is the pause between two checks of their end.
	cleanUpCheck = time.Second
)

// Options configure a Manager. All are required.
type Options struct {
	Monitor *Monitor
	// Pods lists the running pods, with their allocated resources.
	Pods func() []*v1.Pod
	// Stats is the usage of pods. After an error it may be incomplete.
	Stats func(ctx context.Context, pods []*v1.Pod) (map[types.UID]podstats.Pod, error)
	// SoftGrace bounds the grace period of a pod that is evicted for a soft threshold, in seconds.
	SoftGrace int64
	// Evict begins to end a pod, with a grace period in seconds. It returns false if the pod has ended already. Gone
	// says that a pod's containers have ended, and its volumes and cgroup are removed.
	Evict func(pod *v1.Pod, why model.Failure, grace int64) bool
	Gone  func(types.UID) bool
	// Evicted counts an evicted pod by the kubelet's signal.
	Evicted func(signal string)
	// RemoveDead removes containers of finished pods, RemoveImages removes unused images.
	RemoveDead, RemoveImages func(context.Context) error
	Events                   *events.Recorder
	// PressureChanged is called when a condition of the Monitor changed. It must not block.
	PressureChanged func()
}

// Manager evicts pods.
type Manager struct {
	opts Options
	// spared are the critical pods that were not evicted, so that each is logged once.
	spared map[types.UID]bool
}

// New makes a manager.
func New(opts Options) *Manager { return &Manager{opts: opts, spared: map[types.UID]bool{}} }

// Run evicts pods until ctx ends, and returns nil then.
func (m *Manager) Run(ctx context.Context) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			m.wait(ctx, m.synchronize(ctx))
		}
	}
}

// synchronize evicts all pods over a limit, or else one pod if the node is below a threshold. It returns the evicted
// pods.
func (m *Manager) synchronize(ctx context.Context) []*v1.Pod {
	pods := m.opts.Pods()
	m.keepSpared(pods)
	stats, err := m.opts.Stats(ctx, pods)
	if err != nil && ctx.Err() == nil {
		log.G(ctx).WithError(err).Warn("the usage of pods is incomplete; eviction uses only the known part")
	}
	used := usedMemory(stats, err)
	found := m.look(used)
	if found.err != nil {
		log.G(ctx).WithError(found.err).Warn("the node's state is incomplete; eviction uses only the known part")
	}
	var evicted []*v1.Pod
	for _, pod := range pods {
		limit, message := overLimit(pod, stats[pod.UID])
		why := model.Failure{Reason: model.ReasonEvicted, Message: message}
		if message != "" && m.evict(ctx, pod, model.HasCriticalPriority(pod), why, immediate) {
			m.opts.Evicted(limit)
			evicted = append(evicted, pod)
		}
	}
	if len(evicted) > 0 || len(found.met) == 0 {
		return evicted
	}
	return m.relieve(ctx, found, pods, stats, used)
}

// immediate is the grace period in seconds of pods that are evicted for a limit or a hard threshold, as in the kubelet.
const immediate = 1

// usedMemory returns the working set of all pods, or nil after an error.
func usedMemory(stats map[types.UID]podstats.Pod, err error) *int64 {
	if err != nil {
		return nil
	}
	var sum int64
	for _, pod := range stats {
		sum += ptr.Deref(pod.Memory, 0)
	}
	return &sum
}

func (m *Manager) look(used *int64) shortage {
	found := m.opts.Monitor.look(used)
	if found.changed {
		m.opts.PressureChanged()
	}
	return found
}

// relieve frees the scarce resource. It removes dead containers and unused images, and evicts a pod if that is not
// enough.
func (m *Manager) relieve(
	ctx context.Context, found shortage, pods []*v1.Pod, stats map[types.UID]podstats.Pod, used *int64,
) []*v1.Pod {
	low := found.met[0]
	m.opts.Events.RecordNode(true, "EvictionThresholdMet",
		fmt.Sprintf("Attempting to reclaim %s", low.signal.resource()))
	dedicated := m.opts.Monitor.machine.dedicatedImageDisk()
	if m.reclaim(ctx, low.signal, dedicated) {
		if again := m.look(used); len(again.met) == 0 {
			return nil
		}
	}
	for _, pod := range rank(pods, usageOf(low.signal, stats, dedicated)) {
		message := lowMessage(low, found.seen[low.signal], pod, stats[pod.UID])
		why := model.Failure{Reason: model.ReasonEvicted, Message: message, Disruption: true}
		if m.evict(ctx, pod, model.IsCritical(pod), why, m.graceOf(low, pod)) {
			m.opts.Evicted(string(low.signal))
			return []*v1.Pod{pod}
		}
	}
	log.G(ctx).WithField("resource", low.signal.resource()).
		Warn("the node is short of a resource, but no pod can be evicted")
	return nil
}

// graceOf returns a pod's grace period in seconds. For a soft threshold a pod keeps its own grace period, up to
// SoftGrace.
func (m *Manager) graceOf(low threshold, pod *v1.Pod) int64 {
	if !low.soft {
		return immediate
	}
	return max(immediate, min(m.opts.SoftGrace, ptr.Deref(pod.Spec.TerminationGracePeriodSeconds, m.opts.SoftGrace)))
}

// reclaim removes dead containers and unused images, and returns true. As in the kubelet, it removes nothing and
// returns false for a signal of memory or process ids, which the removal does not free. It does the same for the pods'
// disk if images have their own disk: the removal would free only logs there.
func (m *Manager) reclaim(ctx context.Context, low signal, dedicatedImageDisk bool) bool {
	onPodsDisk := low == nodefsAvailable || low == nodefsInodesFree
	if low.condition() != v1.NodeDiskPressure || onPodsDisk && dedicatedImageDisk {
		return false
	}
	err := errors.Join(m.opts.RemoveDead(ctx), m.opts.RemoveImages(ctx))
	if err != nil && ctx.Err() == nil {
		log.G(ctx).WithError(err).Warn("not all dead containers and unused images could be removed")
	}
	return true
}

// evict evicts a pod unless it is critical.
func (m *Manager) evict(
	ctx context.Context, pod *v1.Pod, critical bool, why model.Failure, grace int64,
) (evicted bool) {
	if critical {
		if !m.spared[pod.UID] {
			log.G(ctx).WithFields(log.Fields{"pod": model.Key(pod), "podUID": pod.UID, "message": why.Message}).
				Warn("critical pod is not evicted")
		}
		m.spared[pod.UID] = true
		return false
	}
	if !m.opts.Evict(pod, why, grace) {
		return false
	}
	m.opts.Events.Warn(pod, why.Reason, why.Message)
	return true
}

func (m *Manager) keepSpared(pods []*v1.Pod) {
	known := map[types.UID]bool{}
	for _, pod := range pods {
		known[pod.UID] = true
	}
	maps.DeleteFunc(m.spared, func(uid types.UID, _ bool) bool { return !known[uid] })
}

// wait returns when the evicted pods are gone, or after cleanUp: no further pod may be evicted for resources that the
// evicted pods still hold.
func (m *Manager) wait(ctx context.Context, evicted []*v1.Pod) {
	deadline := time.After(cleanUp)
	check := time.NewTicker(cleanUpCheck)
	defer check.Stop()
	for _, pod := range evicted {
		for !m.opts.Gone(pod.UID) {
			select {
			case <-ctx.Done():
				return
			case <-deadline:
				return
			case <-check.C:
			}
		}
	}
}

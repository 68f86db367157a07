package metrics

import (
	"context"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/criadapter/criadapter/kubelet/podworkers"
)

// Pods returns a pod syncer whose steps are measured. phase returns the last known phase of a pod.
func (m *Metrics) Pods(of podworkers.PodSyncer, phase func(*v1.Pod) v1.PodPhase) podworkers.PodSyncer {
	return &measuredPods{PodSyncer: of, m: m, phase: phase, starting: map[types.UID]time.Time{},
		known: map[types.UID]bool{}}
}

type measuredPods struct {
	podworkers.PodSyncer
	m     *Metrics
	phase func(*v1.Pod) v1.PodPhase

	mu sync.Mutex
	// known are the pods that had a step. starting has the time of a new pod's first step, until the pod runs.
	known    map[types.UID]bool
	starting map[types.UID]time.Time
}

// SyncPod implements podworkers.PodSyncer.
func (p *measuredPods) SyncPod(ctx context.Context, pod *v1.Pod) (ended bool, again time.Duration, err error) {
	began := time.Now()
	kind := p.begin(pod, began)
	ended, again, err = p.PodSyncer.SyncPod(ctx, pod)
	p.m.workerTime.WithLabelValues(kind).Observe(time.Since(began).Seconds())
	p.runs(pod)
	return ended, again, err
}

// begin returns create for the first step of a pod that does not run yet, sync for others.
func (p *measuredPods) begin(pod *v1.Pod, now time.Time) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known[pod.UID] {
		return "sync"
	}
	p.known[pod.UID] = true
	if pod.Status.Phase != "" && pod.Status.Phase != v1.PodPending {
		return "sync" // an earlier process started the pod
	}
	p.starting[pod.UID] = now
	p.m.startedPods.Inc()
	return "create"
}

// runs records the start of a pod that runs.
func (p *measuredPods) runs(pod *v1.Pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	began, starting := p.starting[pod.UID]
	if starting && p.phase(pod) == v1.PodRunning {
		p.m.podStart.Observe(time.Since(began).Seconds())
		delete(p.starting, pod.UID)
	}
}

// SyncTerminatingPod implements podworkers.PodSyncer.
func (p *measuredPods) SyncTerminatingPod(ctx context.Context, pod *v1.Pod, t podworkers.Termination) error {
	began := time.Now()
	defer func() { p.m.workerTime.WithLabelValues("kill").Observe(time.Since(began).Seconds()) }()
	return p.PodSyncer.SyncTerminatingPod(ctx, pod, t)
}

// SyncTerminatedPod implements podworkers.PodSyncer. Then it drops the metrics of the pod's probes, which have ended.
func (p *measuredPods) SyncTerminatedPod(ctx context.Context, pod *v1.Pod) error {
	err := p.PodSyncer.SyncTerminatedPod(ctx, pod)
	if err == nil {
		p.m.probes.forget(pod)
	}
	return err
}

// Forget implements podworkers.PodSyncer.
func (p *measuredPods) Forget(uid types.UID) {
	p.mu.Lock()
	delete(p.known, uid)
	delete(p.starting, uid)
	p.mu.Unlock()
	p.PodSyncer.Forget(uid)
}

package prober

import (
	"context"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/criadapter/criadapter/kubelet/model"
)

// Type is the type of a probe.
type Type string

// The probes.
const (
	liveness  Type = "Liveness"
	readiness Type = "Readiness"
	startup   Type = "Startup"
)

// Result is the result of one probe.
type Result string

// The results. A probe that could not be made has an unknown result.
const (
	Successful Result = "successful"
	Failed     Result = "failed"
	Unknown    Result = "unknown"
)

// Options configure a Manager. All are required.
type Options struct {
	// Exec runs commands in containers. The error of a failed command is a k8s.io/utils/exec.ExitError.
	Exec Exec
	// Unhealthy is called for each failed probe, and Warning for each probe that passed with a warning. Errored is
	// called for each probe that could not be made.
	Unhealthy, Warning, Errored func(pod *v1.Pod, container string, probe Type, why string)
	// Probed is called for each result, with the time that the probe took. It must not block or call the Manager. It is
	// not called for a pod after Forget.
	Probed func(pod *v1.Pod, container string, probe Type, result Result, took time.Duration)
	// HostIP returns the address at which pods in the host's network are probed.
	HostIP func() string
}

// Exec runs a command in a container.
type Exec interface {
	ExecSync(ctx context.Context, containerID string, cmd []string,
		timeout time.Duration) (stdout, stderr []byte, err error)
}

// Manager runs the probes of all pods. It is safe for concurrent use.
type Manager struct {
	opts    Options
	ctx     context.Context
	began   time.Time
	wg      sync.WaitGroup
	changed chan types.UID

	mu      sync.Mutex
	workers map[key]*worker
	passed  map[key]bool // the last result; no entry means unknown
}

// key is one probe of one container. A restarted container has another id.
type key struct {
	container string
	probe     Type
}

// New makes a manager. Its probes end with ctx; Wait waits for that.
func New(ctx context.Context, opts Options) *Manager {
	return &Manager{
		opts: opts, ctx: ctx, began: time.Now(), changed: make(chan types.UID, 64), workers: map[key]*worker{},
		passed: map[key]bool{},
	}
}

// Wait returns when all probes have ended, after the end of New's context.
func (m *Manager) Wait() { m.wg.Wait() }

// Changed returns a channel that delivers the UIDs of pods with a changed result. The channel has one reader.
func (m *Manager) Changed() <-chan types.UID { return m.changed }

// Update starts the probes of running containers, and stops the probes of the others. While the pod is ending, only
// readiness is probed, because no container is restarted. A startup probe's success is kept, because a container that
// has not started cannot be ready.
func (m *Manager) Update(pod *v1.Pod, observed *model.PodStatus, ending bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	wanted := map[key]bool{}
	model.EachContainer(&pod.Spec, func(c *v1.Container, _ model.Kind) {
		status := observed.Container(c.Name)
		if status == nil || status.State != model.StateRunning {
			return
		}
		for probe, spec := range probesOf(c) {
			k := key{status.ID, probe}
			if spec == nil || ending && probe != readiness && !(probe == startup && m.passed[k]) {
				continue
			}
			wanted[k] = true
			if m.workers[k] == nil {
				m.start(k,
					target{pod: pod, container: c, probe: spec, id: status.ID, started: status.StartedAt,
						ip: m.address(pod, observed)})
			}
		}
	})
	for k, w := range m.workers {
		if w.target.pod.UID == pod.UID && !wanted[k] {
			w.cancel()
			delete(m.workers, k)
			delete(m.passed, k)
		}
	}
}

// Forget stops all probes of a pod.
func (m *Manager) Forget(uid types.UID) {
	m.Update(&v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid}}, &model.PodStatus{}, true)
}

func probesOf(c *v1.Container) map[Type]*v1.Probe {
	return map[Type]*v1.Probe{liveness: c.LivenessProbe, readiness: c.ReadinessProbe, startup: c.StartupProbe}
}

func (m *Manager) address(pod *v1.Pod, observed *model.PodStatus) string {
	host := m.opts.HostIP()
	if ips := model.PodAddresses(observed.IPs(), host); len(ips) > 0 && !pod.Spec.HostNetwork {
		return ips[0]
	}
	return host
}

// start starts a probe. The caller holds mu.
func (m *Manager) start(k key, t target) {
	ctx, cancel := context.WithCancel(m.ctx)
	w := &worker{manager: m, key: k, target: t, cancel: cancel}
	m.workers[k] = w
	m.wg.Go(func() { w.run(ctx) })
}

// Results are the results of a pod's running containers.
type Results struct {
	// Ready and Started have the ids of containers that pass their probes. LivenessFailed has the ids of containers
	// that must be restarted.
	Ready, Started, LivenessFailed map[string]bool
	// Assumed says that Ready or Started of a container is from its previous status, because its probe has no result
	// yet.
	Assumed bool
}

// Results returns the results. A running container without a probe counts as passing.
func (m *Manager) Results(pod *v1.Pod, observed *model.PodStatus) Results {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := Results{Ready: map[string]bool{}, Started: map[string]bool{}, LivenessFailed: map[string]bool{}}
	model.EachContainer(&pod.Spec, func(c *v1.Container, _ model.Kind) {
		status := observed.Container(c.Name)
		if status == nil || status.State != model.StateRunning {
			return
		}
		id := status.ID
		before := reported(pod, c.Name, id)
		r.Started[id] = c.StartupProbe == nil || m.result(key{id, startup}, before.Started != nil && *before.Started)
		r.Ready[id] = r.Started[id] && (c.ReadinessProbe == nil || m.result(key{id, readiness}, before.Ready))
		r.Assumed = r.Assumed || m.assumed(c, id)
		for _, probe := range []Type{liveness, startup} {
			if passed, known := m.passed[key{id, probe}]; known && !passed {
				r.LivenessFailed[id] = true
			}
		}
	})
	return r
}

// result is the result of a probe, or before if it has none yet. The caller holds mu.
func (m *Manager) result(k key, before bool) bool {
	if passed, known := m.passed[k]; known {
		return passed
	}
	return before
}

// assumed says whether the readiness or startup probe has no result yet. The caller holds mu.
func (m *Manager) assumed(c *v1.Container, id string) bool {
	for probe, spec := range probesOf(c) {
		if _, known := m.passed[key{id, probe}]; spec != nil && probe != liveness && !known {
			return true
		}
	}
	return false
}

// reported returns the container's status from the API server, or an empty status if the API server's status has
// another container id. The status counts until the first result: a restart of the kubelet must not make a container
// unready.
func reported(pod *v1.Pod, name, id string) v1.ContainerStatus {
	if status := model.FindStatus(&pod.Status, name); status != nil && model.RuntimeID(status.ContainerID) == id {
		return *status
	}
	return v1.ContainerStatus{}
}

// started says whether a container has no startup probe, or one that has succeeded.
func (m *Manager) started(t target) bool {
	if t.container.StartupProbe == nil {
		return true
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.passed[key{t.id, startup}]
}

// measured calls Options.Probed with a result. The result of a worker that has been stopped does not count.
func (m *Manager) measured(w *worker, failure string, err error, took time.Duration) {
	result := Successful
	switch {
	case err != nil:
		result = Unknown
	case failure != "":
		result = Failed
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.workers[w.key] == w {
		m.opts.Probed(w.target.pod, w.target.container.Name, w.key.probe, result, took)
	}
}

// set keeps a result, and sends the pod to Changed if the result is new. The result of a worker that has been stopped
// does not count.
func (m *Manager) set(ctx context.Context, w *worker, passed bool) {
	m.mu.Lock()
	before, known := m.passed[w.key]
	current := m.workers[w.key] == w
	if current {
		m.passed[w.key] = passed
	}
	m.mu.Unlock()
	if !current || known && before == passed {
		return
	}
	select {
	case m.changed <- w.target.pod.UID:
	case <-ctx.Done():
	}
}

package mirrorpod

import (
	"context"
	"sync"
	"time"

	"github.com/containerd/log"
	v1 "k8s.io/api/core/v1"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/util/workqueue"

	"github.com/criadapter/criadapter/kubelet/model"
)

// Options configure a Manager. Pods and Node are required.
type Options struct {
	// Pods is the API server.
	Pods corev1.PodsGetter
	// Node returns this node as the API server has it, nil before it is registered.
	Node func() *v1.Node
	// Problem is called for the first of consecutive failures to create, replace or delete a mirror pod. Static is nil
	// if the static pod is gone. A nil Problem logs the failure.
	Problem func(fullName string, static *v1.Pod, err error)
}

const (
	// The pause before a retry doubles from firstPause to lastPause.
	firstPause = 500 * time.Millisecond
	lastPause  = 30 * time.Second
	// resyncPeriod is the time between two searches for mirror pods that SetMirrorPods did not list.
	resyncPeriod = time.Minute
)

// Manager keeps the mirror pods. It is safe for concurrent use.
type Manager struct {
	opts Options

	mu      sync.Mutex
	queue   workqueue.TypedRateLimitingInterface[string] // of full names; nil before Run
	static  map[string]*v1.Pod
	mirrors map[string]*v1.Pod
	// sourcesReady says that static has all static pods.
	sourcesReady bool
}

// New makes a manager. Nothing is sent before Run.
func New(opts Options) *Manager { return &Manager{opts: opts, mirrors: map[string]*v1.Pod{}} }

// SetStaticPods sets the static pods that need mirror pods, one per full name. It ignores other pods in the list. The
// list may be incomplete until SetSourcesReady. The pods must not be changed afterwards.
func (m *Manager) SetStaticPods(pods []*v1.Pod) {
	wanted := make(map[string]*v1.Pod, len(pods))
	for _, pod := range pods {
		if model.IsStatic(pod) && !model.IsMirror(pod) {
			wanted[model.FullName(pod)] = pod
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.static
	m.static = wanted
	for name, pod := range wanted {
		if old := before[name]; old == nil || old.UID != pod.UID {
			m.wake(name)
		}
	}
	for name := range before {
		if wanted[name] == nil {
			m.wake(name)
		}
	}
}

// SetSourcesReady says that all sources of static pods have listed their pods, and SetStaticPods has set them. From now
// on mirror pods without a static pod are removed. Only the first call has an effect.
func (m *Manager) SetSourcesReady() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.sourcesReady {
		return
	}
	m.sourcesReady = true
	for name := range m.mirrors {
		m.wake(name)
	}
}

// SetMirrorPods sets this node's mirror pods on the API server. It ignores other pods in the list. A call without a
// change is cheap. The pods must not be changed afterwards.
func (m *Manager) SetMirrorPods(pods []*v1.Pod) {
	mirrors := make(map[string]*v1.Pod, len(pods))
	for _, pod := range pods {
		if model.IsMirror(pod) {
			mirrors[model.FullName(pod)] = pod
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.mirrors
	m.mirrors = mirrors
	for name, pod := range mirrors {
		if pod != before[name] && !m.right(name) {
			m.wake(name)
		}
	}
	for name := range before {
		if mirrors[name] == nil {
			m.wake(name)
		}
	}
}

// right reports whether the static pod of a full name has its current mirror pod. The caller holds mu.
func (m *Manager) right(name string) bool {
	static, mirror := m.static[name], m.mirrors[name]
	return static != nil && mirror != nil && isMirrorOf(mirror, static) && mirror.DeletionTimestamp == nil
}

// wake queues a name. The caller holds mu.
func (m *Manager) wake(name string) {
	if m.queue != nil {
		m.queue.Add(name)
	}
}

// Run keeps the mirror pods until ctx ends, and then returns nil. It is called once.
func (m *Manager) Run(ctx context.Context) error {
	queue := workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstPause, lastPause))
	m.mu.Lock()
	m.queue = queue
	for name := range m.static {
		m.wake(name)
	}
	for name := range m.mirrors {
		m.wake(name)
	}
	m.mu.Unlock()
	var resync sync.WaitGroup
	defer resync.Wait()
	resync.Go(func() {
		defer queue.ShutDown()
		m.resync(ctx)
	})
	for {
		name, shutdown := queue.Get()
		if shutdown {
			return nil
		}
		if ctx.Err() == nil {
			m.syncMirrorPod(ctx, queue, name)
		}
		queue.Done(name)
	}
}

// resync periodically queues the static pods whose mirror pod SetMirrorPods did not list, until ctx ends. A mirror pod
// may be created and deleted between two lists.
func (m *Manager) resync(ctx context.Context) {
	ticker := time.NewTicker(resyncPeriod)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		m.mu.Lock()
		for name := range m.static {
			if m.mirrors[name] == nil && m.queue.NumRequeues(name) == 0 {
				m.wake(name)
			}
		}
		m.mu.Unlock()
	}
}

// syncMirrorPod creates, replaces or deletes the mirror pod of a full name. A failure is retried later.
func (m *Manager) syncMirrorPod(ctx context.Context, queue workqueue.TypedRateLimitingInterface[string], name string) {
	m.mu.Lock()
	static, mirror, ready := m.static[name], m.mirrors[name], m.sourcesReady
	m.mu.Unlock()
	var err error
	switch {
	case static != nil:
		err = m.ensure(ctx, static, mirror)
	case ready && mirror != nil:
		err = m.delete(ctx, mirror)
	}
	if err == nil {
		queue.Forget(name)
		return
	}
	if queue.NumRequeues(name) == 0 && ctx.Err() == nil {
		m.report(ctx, name, static, err)
	}
	queue.AddRateLimited(name)
}

func (m *Manager) report(ctx context.Context, name string, static *v1.Pod, err error) {
	if m.opts.Problem != nil {
		m.opts.Problem(name, static, err)
		return
	}
	log.G(ctx).WithError(err).WithField("pod", name).Warn("mirror pod could not be synced, retrying")
}

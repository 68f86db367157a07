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
	// Node returns this node as the server knows it, nil as long as it is not registered.
	Node func() *v1.Node
	// Problem is called the first time in a row that a mirror pod cannot be made, replaced or removed. Static is nil
	// when it is gone. Nil logs it.
	Problem func(fullName string, static *v1.Pod, err error)
	// firstPause is the time before what failed is tried again; it doubles up to lastPause. Zero means half a second
	// and half a minute.
	firstPause, lastPause time.Duration
	// resync is how often the server is asked for mirrors that should be there and were not reported. Zero means a minute.
	resync time.Duration
}

// Manager keeps the mirror pods. It is safe for concurrent use.
type Manager struct {
	opts Options

	mu      sync.Mutex
	queue   workqueue.TypedRateLimitingInterface[string] // of full names; nil unless Run runs
	static  map[string]*v1.Pod
	mirrors map[string]*v1.Pod
	// sourcesReady says that static pods which are not in static do not exist.
	sourcesReady bool
}

// New makes a manager; Run has it work.
func New(opts Options) *Manager {
	if opts.firstPause == 0 {
		opts.firstPause = 500 * time.Millisecond
	}
	if opts.lastPause == 0 {
		opts.lastPause = max(30*time.Second, opts.firstPause)
	}
	if opts.resync == 0 {
		opts.resync = time.Minute
	}
	return &Manager{opts: opts, mirrors: map[string]*v1.Pod{}}
}

// SetStaticPods sets all static pods that are to have mirrors, as far as it is known, one per full name; other pods
// among them are left out. The pods must not be changed afterwards.
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

// SetSourcesReady says that all sources of static pods are complete and handled, so that what SetStaticPods set last is all there
// is: from now on mirrors without a static pod are removed. It costs nothing when it was called before.
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

// SetMirrorPods sets all mirror pods that the server has for this node, as the source of its pods shows it; other
// pods among them are left out. It costs nothing when nothing changed. The pods must not be changed afterwards.
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

// right says whether the mirror pod of a name is the one that is wanted. The caller holds mu.
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

// Run keeps the mirror pods until ctx ends, and returns nil then. It is called once.
func (m *Manager) Run(ctx context.Context) error {
	queue := workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](m.opts.firstPause, m.opts.lastPause))
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

// resync queues again and again, until ctx ends, the names whose mirror was not reported: one that came and went while
// the source of pods was not looking is made anew.
func (m *Manager) resync(ctx context.Context) {
	ticker := time.NewTicker(m.opts.resync)
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

// syncMirrorPod does what one name asks for, and has it tried again later if that failed.
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
	log.G(ctx).WithError(err).WithField("pod", name).Warn("mirror pod is not as it should be, it is tried again")
}

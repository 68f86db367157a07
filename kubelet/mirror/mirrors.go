package mirror

import (
	"context"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	v1 "k8s.io/api/core/v1"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/util/workqueue"

	"github.com/criadapter/criadapter/kubelet/model"
)

// Options configure Mirrors. Pods and Node are required.
type Options struct {
	// Pods is the API server.
	Pods corev1.PodsGetter
	// Node returns this node as the server knows it, nil as long as it is not registered.
	Node func() *v1.Node
	// Problem is told the first time in a row that a mirror pod cannot be made, replaced or removed. Static is nil when
	// it is gone. Nil logs it.
	Problem func(fullName string, static *v1.Pod, err error)
	// FirstPause is the time before what failed is tried again; it doubles up to LastPause. Zero means half a second and
	// half a minute.
	FirstPause, LastPause time.Duration
	// Resync is how often the server is asked for mirrors that should be there and were not seen. Zero means a minute.
	Resync time.Duration
}

// Mirrors keeps the mirror pods. It is safe for concurrent use.
type Mirrors struct {
	opts Options

	mu     sync.Mutex
	queue  workqueue.TypedRateLimitingInterface[string] // of full names; nil unless Run runs
	static map[string]*v1.Pod
	seen   map[string]*v1.Pod
	// complete says that static pods which are not in static do not exist.
	complete bool
}

// New makes Mirrors; Run has it work.
func New(opts Options) *Mirrors {
	if opts.Problem == nil {
		opts.Problem = func(fullName string, _ *v1.Pod, err error) {
			logrus.WithError(err).WithField("pod", fullName).Warn("A static pod has not the mirror pod it should have; it is tried again")
		}
	}
	if opts.FirstPause == 0 {
		opts.FirstPause = 500 * time.Millisecond
	}
	if opts.LastPause == 0 {
		opts.LastPause = max(30*time.Second, opts.FirstPause)
	}
	if opts.Resync == 0 {
		opts.Resync = time.Minute
	}
	return &Mirrors{opts: opts, seen: map[string]*v1.Pod{}}
}

// Want tells the whole set of static pods that are to have mirrors, as far as it is known, one per full name; other pods
// among them are left out. The pods must not be changed afterwards.
func (m *Mirrors) Want(pods []*v1.Pod) {
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

// Complete tells that all sources of static pods have spoken, so that what Want told last is all there is: from now on
// mirrors that were seen without a static pod are removed. It costs nothing when it was told before.
func (m *Mirrors) Complete() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.complete {
		return
	}
	m.complete = true
	for name := range m.seen {
		m.wake(name)
	}
}

// Seen tells the whole set of mirror pods that the server has for this node, as the source of its pods shows it; other
// pods among them are left out. It costs nothing when nothing changed. The pods must not be changed afterwards.
func (m *Mirrors) Seen(pods []*v1.Pod) {
	seen := make(map[string]*v1.Pod, len(pods))
	for _, pod := range pods {
		if model.IsMirror(pod) {
			seen[model.FullName(pod)] = pod
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.seen
	m.seen = seen
	for name, pod := range seen {
		if pod != before[name] && !m.right(name) {
			m.wake(name)
		}
	}
	for name := range before {
		if seen[name] == nil {
			m.wake(name)
		}
	}
}

// right says whether the mirror that was seen under a name is the one that is wanted. The caller holds mu.
func (m *Mirrors) right(name string) bool {
	static, seen := m.static[name], m.seen[name]
	return static != nil && seen != nil && Of(seen, static) && seen.DeletionTimestamp == nil
}

// wake queues a name. The caller holds mu.
func (m *Mirrors) wake(name string) {
	if m.queue != nil {
		m.queue.Add(name)
	}
}

// Run keeps the mirror pods until ctx ends, and returns nil then. It is called once.
func (m *Mirrors) Run(ctx context.Context) error {
	queue := workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](m.opts.FirstPause, m.opts.LastPause))
	m.mu.Lock()
	m.queue = queue
	for name := range m.static {
		m.wake(name)
	}
	for name := range m.seen {
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
			m.attempt(ctx, queue, name)
		}
		queue.Done(name)
	}
}

// resync queues again and again, until ctx ends, the names whose mirror was not seen: one that came and went while the
// source of pods was not looking is made anew.
func (m *Mirrors) resync(ctx context.Context) {
	ticker := time.NewTicker(m.opts.Resync)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		m.mu.Lock()
		for name := range m.static {
			if m.seen[name] == nil && m.queue.NumRequeues(name) == 0 {
				m.wake(name)
			}
		}
		m.mu.Unlock()
	}
}

// attempt does what one name asks for, and has it tried again later if that failed.
func (m *Mirrors) attempt(ctx context.Context, queue workqueue.TypedRateLimitingInterface[string], name string) {
	m.mu.Lock()
	static, seen, complete := m.static[name], m.seen[name], m.complete
	m.mu.Unlock()
	var err error
	switch {
	case static != nil:
		err = m.Ensure(ctx, static, seen)
	case complete && seen != nil:
		err = m.Delete(ctx, seen)
	}
	if err == nil {
		queue.Forget(name)
		return
	}
	if queue.NumRequeues(name) == 0 && ctx.Err() == nil {
		m.opts.Problem(name, static, err)
	}
	queue.AddRateLimited(name)
}

package objects

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/criadapter/criadapter/kubelet/apiserver/reflector"
	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/kubelet/volumekinds"
)

// Options configure a Manager. Core is required.
type Options struct {
	// Core is the client. It must not bound its requests: watches last.
	Core corev1.CoreV1Interface
	// patience is how long an answer is waited for when an object is asked for that was registered a moment ago. Zero
	// means a second, as the kubelet.
	patience time.Duration
	// retry says when a server that is away is asked again; zero values are the kubelet's.
	retry reflector.Retry
}

// Manager has the API server's objects that the registered pods name, and is volumekinds.Objects for those pods. It
// is safe for concurrent use.
type Manager struct {
	opts    Options
	changes *volumekinds.Changes
	stopped chan struct{} // closed when Run ends: nothing more is answered
	watches sync.WaitGroup

	mu    sync.Mutex
	ctx   context.Context // of Run, nil before it
	pods  map[types.UID]map[volumekinds.Object]bool
	items map[volumekinds.Object]*item
}

// New makes a manager without objects. Nothing is requested before Run.
func New(opts Options) *Manager {
	if opts.patience == 0 {
		opts.patience = time.Second
	}
	return &Manager{
		opts: opts, changes: volumekinds.NewChanges(), stopped: make(chan struct{}),
		pods: map[types.UID]map[volumekinds.Object]bool{}, items: map[volumekinds.Object]*item{},
	}
}

// Run watches until ctx ends, and returns ctx's error then. Call it once.
func (m *Manager) Run(ctx context.Context) error {
	m.mu.Lock()
	m.ctx = ctx
	for _, it := range m.items {
		m.start(it)
	}
	m.mu.Unlock()
	<-ctx.Done()
	m.mu.Lock()
	close(m.stopped) // no watch starts any more
	m.mu.Unlock()
	m.watches.Wait()
	return ctx.Err()
}

// Changed receives objects of registered pods after they changed, or were read for the first time.
func (m *Manager) Changed() <-chan map[volumekinds.Object]bool { return m.changes.Wait() }

// RegisterPod watches all that the pod names, until UnregisterPod. Registering it again with another specification
// lets go of what it no longer names. Static pods and mirror pods name nothing at the server.
func (m *Manager) RegisterPod(pod *v1.Pod) {
	if model.IsStatic(pod) || model.IsMirror(pod) {
		return
	}
	named := volumekinds.ObjectsOf(pod)
	m.mu.Lock()
	defer m.mu.Unlock()
	old := m.pods[pod.UID]
	m.pods[pod.UID] = named
	for k := range named {
		if !old[k] {
			m.use(k)
		}
	}
	for k := range old {
		if !named[k] {
			m.release(k)
		}
	}
}

// UnregisterPod lets go of all that a registered pod names. Another pod is no error.
func (m *Manager) UnregisterPod(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for k := range m.pods[uid] {
		m.release(k)
	}
	delete(m.pods, uid)
}

// use counts one more pod for an object. The caller holds mu.
func (m *Manager) use(k volumekinds.Object) {
	it := m.items[k]
	if it == nil {
		it = newItem(k, func() { m.changes.Add(k) })
		m.items[k] = it
		m.start(it)
	}
	it.users++
}

// release counts one pod less, and forgets an object without one. The caller holds mu.
func (m *Manager) release(k volumekinds.Object) {
	it := m.items[k]
	if it.users--; it.users > 0 {
		return
	}
	if it.cancel != nil {
		it.cancel()
	}
	delete(m.items, k)
}

// start watches one object, if Run runs. The caller holds mu.
func (m *Manager) start(it *item) {
	select {
	case <-m.stopped:
		return
	default:
	}
	if m.ctx == nil {
		return
	}
	ctx, cancel := context.WithCancel(m.ctx)
	it.cancel = cancel
	m.watches.Go(func() {
		defer cancel()
		switch namespace := it.key.Namespace; it.key.Resource {
		case volumekinds.ConfigMaps:
			watchOne(ctx, m.opts.Core.ConfigMaps(namespace), cell[*v1.ConfigMap]{it, ofConfigMap, cancel}, m.opts.retry)
		case volumekinds.Secrets:
			watchOne(ctx, m.opts.Core.Secrets(namespace), cell[*v1.Secret]{it, ofSecret, cancel}, m.opts.retry)
		}
	})
}

// watchOne keeps a cell up to date until ctx ends.
func watchOne[T, L runtime.Object](ctx context.Context, client reflector.Client[L], c cell[T], retry reflector.Retry) {
	reflector.Run(ctx, client, reflector.Options[T]{
		FieldSelector: fields.OneTermEqualSelector("metadata.name", c.item.key.Name).String(),
		Store:         c, Problem: func(err error) { c.item.fail(ctx, err) }, Retry: retry,
	})
}

// ConfigMap is volumekinds.Objects. An object that the server does not have is an errdefs.ErrNotFound. One that the
// server has not answered for within Options.patience is an errdefs.ErrUnavailable with the reason; Changed has a
// value when it has.
func (m *Manager) ConfigMap(pod *v1.Pod, name string) (*v1.ConfigMap, error) {
	found, err := m.get(named(volumekinds.ConfigMaps, pod, name))
	return found.configMap, err
}

// Secret is volumekinds.Objects, with the errors of ConfigMap.
func (m *Manager) Secret(pod *v1.Pod, name string) (*v1.Secret, error) {
	found, err := m.get(named(volumekinds.Secrets, pod, name))
	return found.secret, err
}

// named is an object of the pod's namespace.
func named(of volumekinds.Resource, pod *v1.Pod, name string) volumekinds.Object {
	return volumekinds.Object{Resource: of, NamespacedName: types.NamespacedName{Namespace: pod.Namespace, Name: name}}
}

func (m *Manager) get(k volumekinds.Object) (object, error) {
	m.mu.Lock()
	it := m.items[k]
	m.mu.Unlock()
	if it == nil {
		return object{}, fmt.Errorf("%s: no pod that is registered names it: %w", k, errdefs.ErrFailedPrecondition)
	}
	select {
	case <-it.synced: // as most times
		return it.get()
	default:
	}
	patience := time.NewTimer(m.opts.patience)
	defer patience.Stop()
	select {
	case <-it.synced:
	case <-patience.C:
	case <-m.stopped:
	}
	return it.get()
}

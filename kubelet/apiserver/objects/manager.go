package objects

import (
	"cmp"
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
	// Core is the client. Its requests must have no timeout, because watches last.
	Core corev1.CoreV1Interface
	// patience is the time that a reader waits for the server's first answer for an object. Zero means a second, as in
	// the kubelet.
	patience time.Duration
	// retry sets the pauses before a retry. Zero values are the kubelet's.
	retry reflector.Retry
}

// Manager has the API server's objects that registered pods name. It implements volumekinds.Objects for those pods. It
// is safe for concurrent use.
type Manager struct {
	opts    Options
	changes *volumekinds.Changes
	stopped chan struct{} // closed when Run ends: readers stop waiting
	watches sync.WaitGroup

	mu    sync.Mutex
	ctx   context.Context // of Run, nil before it
	pods  map[types.UID]map[volumekinds.Object]bool
	items map[volumekinds.Object]*item
}

// New makes a manager without objects. Nothing is requested before Run.
func New(opts Options) *Manager {
	opts.patience = cmp.Or(opts.patience, time.Second)
	return &Manager{
		opts: opts, changes: volumekinds.NewChanges(), stopped: make(chan struct{}),
		pods: map[types.UID]map[volumekinds.Object]bool{}, items: map[volumekinds.Object]*item{},
	}
}

// Run watches until ctx ends, and then returns ctx's error. Call it once.
func (m *Manager) Run(ctx context.Context) error {
	m.mu.Lock()
	m.ctx = ctx
	for _, it := range m.items {
		m.start(it)
	}
	m.mu.Unlock()
	<-ctx.Done()
	m.mu.Lock()
	close(m.stopped) // from now on no watch starts
	m.mu.Unlock()
	m.watches.Wait()
	return ctx.Err()
}

// Changed receives objects of registered pods after they changed or were read for the first time.
func (m *Manager) Changed() <-chan map[volumekinds.Object]bool { return m.changes.Wait() }

// RegisterPod watches all objects that the pod names, until UnregisterPod. Registering a changed pod releases the
// objects that it no longer names. It ignores static pods and mirror pods.
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

// UnregisterPod releases all objects of a registered pod. It ignores other pods.
func (m *Manager) UnregisterPod(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for k := range m.pods[uid] {
		m.release(k)
	}
	delete(m.pods, uid)
}

// use adds a user of an object. The caller holds mu.
func (m *Manager) use(k volumekinds.Object) {
	it := m.items[k]
	if it == nil {
		it = &item{key: k, changed: func() { m.changes.Add(k) }, synced: make(chan struct{})}
		m.items[k] = it
		m.start(it)
	}
	it.users++
}

// release removes a user of an object, and forgets an object without users. The caller holds mu.
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

// start watches one object, after Run was called. The caller holds mu.
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

// ConfigMap implements volumekinds.Objects. The error is an errdefs.ErrNotFound if the server has no such object. It is
// an errdefs.ErrUnavailable with the reason if the server has not answered within Options.patience; Changed receives
// the object after the answer.
func (m *Manager) ConfigMap(pod *v1.Pod, name string) (*v1.ConfigMap, error) {
	found, err := m.get(named(volumekinds.ConfigMaps, pod, name))
	return found.configMap, err
}

// Secret implements volumekinds.Objects, with the errors of ConfigMap.
func (m *Manager) Secret(pod *v1.Pod, name string) (*v1.Secret, error) {
	found, err := m.get(named(volumekinds.Secrets, pod, name))
	return found.secret, err
}

// named returns the key of an object in the pod's namespace.
func named(of volumekinds.Resource, pod *v1.Pod, name string) volumekinds.Object {
	return volumekinds.Object{Resource: of, NamespacedName: types.NamespacedName{Namespace: pod.Namespace, Name: name}}
}

func (m *Manager) get(k volumekinds.Object) (object, error) {
	m.mu.Lock()
	it := m.items[k]
	m.mu.Unlock()
	if it == nil {
		return object{}, fmt.Errorf("%s: no registered pod names it: %w", k, errdefs.ErrFailedPrecondition)
	}
	select {
	case <-it.synced: // usually
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

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

	"github.com/criadapter/criadapter/kubelet/follow"
	"github.com/criadapter/criadapter/kubelet/model"
)

// Options configure a Server. Core is required.
type Options struct {
	// Core is the client. It must not bound its requests: watches last.
	Core corev1.CoreV1Interface
	// Patience is how long an answer is waited for when an object is asked for that was tracked a moment ago. Zero means
	// a second, as the kubelet.
	Patience time.Duration
	// Retry says when a server that is away is asked again; zero values are the kubelet's.
	Retry follow.Retry
}

// Server has the API server's objects that the tracked pods name, and is volume.Objects for those pods. It is safe for
// concurrent use.
type Server struct {
	opts    Options
	changed chan struct{}
	stopped chan struct{} // closed when Run ends: nothing more is answered
	watches sync.WaitGroup

	mu    sync.Mutex
	ctx   context.Context // of Run, nil before it
	pods  map[types.UID]map[key]bool
	items map[key]*item
}

// New makes a server that knows nothing. It asks nothing until Run.
func New(opts Options) *Server {
	if opts.Patience == 0 {
		opts.Patience = time.Second
	}
	return &Server{
		opts: opts, changed: make(chan struct{}, 1), stopped: make(chan struct{}),
		pods: map[types.UID]map[key]bool{}, items: map[key]*item{},
	}
}

// Run watches until ctx ends, and returns ctx's error then. Call it once.
func (s *Server) Run(ctx context.Context) error {
	s.mu.Lock()
	s.ctx = ctx
	for _, it := range s.items {
		s.start(it)
	}
	s.mu.Unlock()
	<-ctx.Done()
	s.mu.Lock()
	close(s.stopped) // no watch starts any more
	s.mu.Unlock()
	s.watches.Wait()
	return ctx.Err()
}

// Changed receives a value after the objects of tracked pods changed, or were read for the first time; several changes
// may be one value.
func (s *Server) Changed() <-chan struct{} { return s.changed }

// Track watches all that the pod names, until Forget. Tracking it again with another specification lets go of what it no
// longer names. Static pods and mirror pods name nothing at the server.
func (s *Server) Track(pod *v1.Pod) {
	if model.IsStatic(pod) || model.IsMirror(pod) {
		return
	}
	named := references(pod)
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.pods[pod.UID]
	s.pods[pod.UID] = named
	for k := range named {
		if !old[k] {
			s.use(k)
		}
	}
	for k := range old {
		if !named[k] {
			s.release(k)
		}
	}
}

// Forget lets go of all that a tracked pod names. Another pod is no error.
func (s *Server) Forget(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k := range s.pods[uid] {
		s.release(k)
	}
	delete(s.pods, uid)
}

// Watched counts the objects that tracked pods name.
func (s *Server) Watched() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.items)
}

// use counts one more pod for an object. The caller holds mu.
func (s *Server) use(k key) {
	it := s.items[k]
	if it == nil {
		it = newItem(k, s.tell)
		s.items[k] = it
		s.start(it)
	}
	it.users++
}

// release counts one pod less, and forgets an object without one. The caller holds mu.
func (s *Server) release(k key) {
	it := s.items[k]
	if it.users--; it.users > 0 {
		return
	}
	if it.cancel != nil {
		it.cancel()
	}
	delete(s.items, k)
}

// start watches one object, if Run runs. The caller holds mu.
func (s *Server) start(it *item) {
	select {
	case <-s.stopped:
		return
	default:
	}
	if s.ctx == nil {
		return
	}
	ctx, cancel := context.WithCancel(s.ctx)
	it.cancel = cancel
	s.watches.Go(func() {
		defer cancel()
		switch namespace := it.key.Namespace; it.key.kind {
		case configMap:
			watchOne(ctx, s.opts.Core.ConfigMaps(namespace), cell[*v1.ConfigMap]{it, ofConfigMap, cancel}, s.opts.Retry)
		case secret:
			watchOne(ctx, s.opts.Core.Secrets(namespace), cell[*v1.Secret]{it, ofSecret, cancel}, s.opts.Retry)
		}
	})
}

// watchOne keeps a cell up to date until ctx ends.
func watchOne[T, L runtime.Object](ctx context.Context, client follow.Client[L], c cell[T], retry follow.Retry) {
	follow.Run(ctx, client, follow.Options[T]{
		FieldSelector: fields.OneTermEqualSelector("metadata.name", c.item.key.Name).String(),
		Store:         c, Problem: c.item.fail, Retry: retry,
	})
}

func (s *Server) tell() {
	select {
	case s.changed <- struct{}{}:
	default: // the one that waits there tells of this change, too
	}
}

// ConfigMap is volume.Objects. An object that the server does not have is an errdefs.ErrNotFound. One that the server has
// not answered for within Options.Patience is an errdefs.ErrUnavailable with the reason; Changed tells when it has.
func (s *Server) ConfigMap(pod *v1.Pod, name string) (*v1.ConfigMap, error) {
	found, err := s.get(key{configMap, types.NamespacedName{Namespace: pod.Namespace, Name: name}})
	return found.configMap, err
}

// Secret is volume.Objects, with the errors of ConfigMap.
func (s *Server) Secret(pod *v1.Pod, name string) (*v1.Secret, error) {
	found, err := s.get(key{secret, types.NamespacedName{Namespace: pod.Namespace, Name: name}})
	return found.secret, err
}

func (s *Server) get(k key) (object, error) {
	s.mu.Lock()
	it := s.items[k]
	s.mu.Unlock()
	if it == nil {
		return object{}, fmt.Errorf("%s: no pod that is tracked names it: %w", k, errdefs.ErrFailedPrecondition)
	}
	select {
	case <-it.told: // as most times
		return it.get()
	default:
	}
	patience := time.NewTimer(s.opts.Patience)
	defer patience.Stop()
	select {
	case <-it.told:
	case <-patience.C:
	case <-s.stopped:
	}
	return it.get()
}

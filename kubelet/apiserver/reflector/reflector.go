package reflector

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
)

// Store receives the server's objects, one call at a time. The objects belong to the store.
type Store[T runtime.Object] interface {
	// Replace sets all objects.
	Replace(objects []T)
	// Set adds or changes an object.
	Set(object T)
	// Delete removes an object.
	Delete(object T)
}

// Client has the common methods of typed clients. L is their list type.
type Client[L runtime.Object] interface {
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}

// Options select the objects. Store is required.
type Options[T runtime.Object] struct {
	// FieldSelector selects objects, for example by metadata.name=settings.
	FieldSelector string
	// Store receives the objects.
	Store Store[T]
	// Problem is called once for each kind of reason why the server cannot be asked, and with nil when it can be asked
	// again. It must return soon. A nil Problem drops the reasons.
	Problem func(error)
	// Retry sets the pauses before a retry.
	Retry Retry
}

// Retry sets the pause before the next request to a server that is away. The pause doubles from First to Max. A random
// time of up to the pause is added, so that not all nodes of a cluster retry at the same time.
type Retry struct {
	// First is the shortest pause. Zero means 800 milliseconds, as in the kubelet.
	First time.Duration
	// Max is the longest pause without the random part. Zero means 30 seconds, as in the kubelet.
	Max time.Duration
}

// listTimeout bounds a list. The server, and the health check of HTTP/2, bound a watch.
const listTimeout = 30 * time.Second

// backoffReset is the time without a failure after which the pauses start again with the shortest.
const backoffReset = 2 * time.Minute

// Run lists and watches until ctx ends. The client's requests must have no timeout, because watches last.
func Run[T, L runtime.Object](ctx context.Context, client Client[L], opts Options[T]) {
	var expected T
	lw := &listerWatcher[L]{client: client, selector: opts.FieldSelector, errors: errorReporter{report: opts.Problem}}
	reflector := cache.NewReflectorWithOptions(lw, expected, adapter[T]{opts.Store}, cache.ReflectorOptions{
		Name: "kubelet-core", Backoff: opts.Retry.backoff(),
	})
	// Lists have separate pauses. While a server is away, the reflector tries to resume its watch with growing pauses.
	// When the server is back and the reflector needs a new list, that list must not wait so long.
	pauses := opts.Retry.backoff().DelayWithReset(clock.RealClock{}, backoffReset)
	_ = pauses.Until(ctx, true, true, func(ctx context.Context) (bool, error) {
		_ = reflector.ListAndWatchWithContext(ctx) // listerWatcher has reported its errors
		return false, nil
	}) // it returns ctx's error
}

func (r Retry) backoff() *wait.Backoff {
	first, limit := cmp.Or(r.First, 800*time.Millisecond), cmp.Or(r.Max, 30*time.Second)
	steps := int(math.Ceil(float64(limit) / float64(first)))
	return &wait.Backoff{Duration: first, Cap: limit, Steps: steps, Factor: 2, Jitter: 1}
}

// listerWatcher lists and watches for the reflector. It implements cache.ListerWatcherWithContext.
type listerWatcher[L runtime.Object] struct {
	client   Client[L]
	selector string
	errors   errorReporter
}

// IsWatchListSemanticsUnSupported makes the reflector list before it watches. The streamed list would spare the server
// memory for thousands of objects. One node has few objects, and a list can have a timeout.
func (*listerWatcher[L]) IsWatchListSemanticsUnSupported() bool { return true }

// ListWithContext implements cache.ListerWithContext.
func (l *listerWatcher[L]) ListWithContext(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	options.FieldSelector = l.selector
	bounded, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	objects, err := l.client.List(bounded, options)
	if err == nil || ctx.Err() != nil {
		return objects, err
	}
	if bounded.Err() != nil {
		err = fmt.Errorf("no answer in %s: %w", listTimeout, err)
	}
	l.errors.failed(err)
	return objects, err
}

// WatchWithContext implements cache.WatcherWithContext. A problem is over only when a watch begins: the server may
// allow lists and refuse watches.
func (l *listerWatcher[L]) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	options.FieldSelector = l.selector
	events, err := l.client.Watch(ctx, options)
	switch {
	case err == nil:
		l.errors.succeeded()
	case ctx.Err() == nil:
		l.errors.failed(err)
	}
	return events, err
}

// List implements cache.Lister. The reflector's type requires it, but the reflector calls ListWithContext.
func (l *listerWatcher[L]) List(options metav1.ListOptions) (runtime.Object, error) {
	return l.ListWithContext(context.Background(), options)
}

// Watch implements cache.Watcher. The reflector calls WatchWithContext.
func (l *listerWatcher[L]) Watch(options metav1.ListOptions) (watch.Interface, error) {
	return l.WatchWithContext(context.Background(), options)
}

// adapter lets the reflector fill a Store. The reflector checks the type of each object of a watch. The client's type
// determines the type of a list's objects.
type adapter[T runtime.Object] struct{ to Store[T] }

func (a adapter[T]) Add(object any) error    { a.to.Set(object.(T)); return nil }
func (a adapter[T]) Update(object any) error { a.to.Set(object.(T)); return nil }
func (a adapter[T]) Delete(object any) error { a.to.Delete(object.(T)); return nil }
func (a adapter[T]) Resync() error           { return nil }

func (a adapter[T]) Replace(objects []any, _ string) error {
	typed := make([]T, len(objects))
	for i, object := range objects {
		typed[i] = object.(T)
	}
	a.to.Replace(typed)
	return nil
}

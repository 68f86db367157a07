package reflector

import (
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

// Store receives what the server has. Calls come one after the other. The objects belong to the store.
type Store[T runtime.Object] interface {
	// Replace is all objects there are.
	Replace(objects []T)
	// Set is an object that is new or changed.
	Set(object T)
	// Delete is an object that is gone.
	Delete(object T)
}

// Client is what typed clients have in common, L being the type of their lists.
type Client[L runtime.Object] interface {
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}

// Options say what to list and watch. Store is required.
type Options[T runtime.Object] struct {
	// FieldSelector leaves out objects, such as all but metadata.name=settings.
	FieldSelector string
	// Store receives the objects.
	Store Store[T]
	// Problem is called with why the server cannot be asked, once for each kind of reason, and with nil when it can be
	// again. It must return soon. Nil drops it.
	Problem func(error)
	// Retry says when to ask again.
	Retry Retry
}

// Retry says how long to wait before a server that is away is asked again: First, doubled up to Max, each time with as
// much again by chance, so that the nodes of a cluster do not come back at one time.
type Retry struct {
	// First is the shortest pause; zero means 800 milliseconds, as every kubelet.
	First time.Duration
	// Max is the longest pause without what chance adds; zero means 30 seconds, as every kubelet.
	Max time.Duration
}

// listTimeout bounds a list. Watches are bounded by the server, and by the health check of HTTP/2.
const listTimeout = 30 * time.Second

// backoffReset is how long nothing must have gone wrong for the pauses to begin with the shortest again.
const backoffReset = 2 * time.Minute

// Run lists and watches until ctx ends. The client must not bound its requests: watches last.
func Run[T, L runtime.Object](ctx context.Context, client Client[L], opts Options[T]) {
	var expected T
	lw := &listerWatcher[L]{client: client, selector: opts.FieldSelector, errors: errorReporter{report: opts.Problem}}
	reflector := cache.NewReflectorWithOptions(lw, expected, adapter[T]{opts.Store}, cache.ReflectorOptions{
		Name: "kubelet-core", Backoff: opts.Retry.backoff(),
	})
	// Lists have pauses of their own. While a server is away, the reflector tries to resume its watch with longer and
	// longer ones; when it is back and has forgotten where the watch was, the list that is needed must not wait so
	// long.
	pauses := opts.Retry.backoff().DelayWithReset(clock.RealClock{}, backoffReset)
	_ = pauses.Until(ctx, true, true, func(ctx context.Context) (bool, error) {
		_ = reflector.ListAndWatchWithContext(ctx) // listerWatcher has reported its errors
		return false, nil
	}) // it returns ctx's error
}

func (r Retry) backoff() *wait.Backoff {
	if r.First == 0 {
		r.First = 800 * time.Millisecond
	}
	if r.Max == 0 {
		r.Max = 30 * time.Second
	}
	return &wait.Backoff{Duration: r.First, Cap: r.Max, Steps: int(math.Ceil(float64(r.Max) / float64(r.First))), Factor: 2, Jitter: 1}
}

// listerWatcher is how the reflector lists and watches; it is a cache.ListerWatcherWithContext.
type listerWatcher[L runtime.Object] struct {
	client   Client[L]
	selector string
	errors   errorReporter
}

// IsWatchListSemanticsUnSupported has the reflector list before it watches. The streamed list, which it would prefer,
// spares the server memory where thousands of objects are listed; here it is the few of one node, and a list has an
// answer that can be waited for with a limit.
func (*listerWatcher[L]) IsWatchListSemanticsUnSupported() bool { return true }

// ListWithContext is cache.ListerWithContext.
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

// WatchWithContext is cache.WatcherWithContext. Only a watch that began shows that the server can be asked: a list may
// be allowed where a watch is not.
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

// List is cache.Lister, for the reflector's type alone: it takes the one with a context.
func (l *listerWatcher[L]) List(options metav1.ListOptions) (runtime.Object, error) {
	return l.ListWithContext(context.Background(), options)
}

// Watch is cache.Watcher, for the reflector's type alone.
func (l *listerWatcher[L]) Watch(options metav1.ListOptions) (watch.Interface, error) {
	return l.WatchWithContext(context.Background(), options)
}

// adapter gives a Store the reflector's shape. The reflector has checked the type of what a watch sends; a list has it
// by the client's type.
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

package follow

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

// Options say what to follow. Store is required.
type Options[T runtime.Object] struct {
	// FieldSelector leaves out objects, such as all but metadata.name=settings.
	FieldSelector string
	// Store receives the objects.
	Store Store[T]
	// Problem is told why the server cannot be asked, once for each kind of reason, and nil when it can be again. It
	// must return soon. Nil drops it.
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

// calm is how long nothing must have gone wrong for the pauses to begin with the shortest again.
const calm = 2 * time.Minute

// Run follows until ctx ends. The client must not bound its requests: watches last.
func Run[T, L runtime.Object](ctx context.Context, client Client[L], opts Options[T]) {
	var expected T
	asked := &asker[L]{client: client, selector: opts.FieldSelector, report: reporter{tell: opts.Problem}}
	reflector := cache.NewReflectorWithOptions(asked, expected, store[T]{opts.Store}, cache.ReflectorOptions{
		Name: "follow", Backoff: opts.Retry.backoff(),
	})
	// Lists have pauses of their own. While a server is away, the reflector tries to resume its watch with longer and
	// longer ones; when it is back and has forgotten where the watch was, the list that is needed must not wait so long.
	pauses := opts.Retry.backoff().DelayWithReset(clock.RealClock{}, calm)
	_ = pauses.Until(ctx, true, true, func(ctx context.Context) (bool, error) {
		_ = reflector.ListAndWatchWithContext(ctx) // asker has told of its errors
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

// asker is the reflector's way to the server.
type asker[L runtime.Object] struct {
	client   Client[L]
	selector string
	report   reporter
}

// IsWatchListSemanticsUnSupported has the reflector list before it watches. The streamed list, which it would prefer,
// spares the server memory where thousands of objects are listed; here it is the few of one node, and a list has an
// answer that can be waited for with a limit.
func (*asker[L]) IsWatchListSemanticsUnSupported() bool { return true }

// ListWithContext is cache.ListerWithContext.
func (a *asker[L]) ListWithContext(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	options.FieldSelector = a.selector
	bounded, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	objects, err := a.client.List(bounded, options)
	if err == nil || ctx.Err() != nil {
		return objects, err
	}
	if bounded.Err() != nil {
		err = fmt.Errorf("no answer in %s: %w", listTimeout, err)
	}
	a.report.failed(err)
	return objects, err
}

// WatchWithContext is cache.WatcherWithContext. Only a watch that began shows that the server can be asked: a list may
// be allowed where a watch is not.
func (a *asker[L]) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	options.FieldSelector = a.selector
	events, err := a.client.Watch(ctx, options)
	switch {
	case err == nil:
		a.report.worked()
	case ctx.Err() == nil:
		a.report.failed(err)
	}
	return events, err
}

// List is cache.Lister, for the reflector's type alone: it takes the one with a context.
func (a *asker[L]) List(options metav1.ListOptions) (runtime.Object, error) {
	return a.ListWithContext(context.Background(), options)
}

// Watch is cache.Watcher, for the reflector's type alone.
func (a *asker[L]) Watch(options metav1.ListOptions) (watch.Interface, error) {
	return a.WatchWithContext(context.Background(), options)
}

// store gives a Store the reflector's shape. The reflector has checked the type of what a watch sends; a list has it by
// the client's type.
type store[T runtime.Object] struct{ to Store[T] }

func (s store[T]) Add(object any) error    { s.to.Set(object.(T)); return nil }
func (s store[T]) Update(object any) error { s.to.Set(object.(T)); return nil }
func (s store[T]) Delete(object any) error { s.to.Delete(object.(T)); return nil }
func (s store[T]) Resync() error           { return nil }

func (s store[T]) Replace(objects []any, _ string) error {
	typed := make([]T, len(objects))
	for i, object := range objects {
		typed[i] = object.(T)
	}
	s.to.Replace(typed)
	return nil
}

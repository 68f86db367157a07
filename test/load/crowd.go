package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	retry "k8s.io/client-go/tools/watch"

	"github.com/criadapter/criadapter/kubelet/model"
)

const (
	// namespace is the namespace of the pods.
	namespace = "load"
	// clients is the number of concurrent requests.
	clients = 8
	// look is the period in which a wait checks again although no pod has changed.
	look = 100 * time.Millisecond
)

// seen has the times of one pod.
type seen struct {
	created, ready time.Time // by the API server's time stamps; ready is zero until the pod is Ready
	deleted, gone  time.Time // by our clock; zero until it happens
	old            bool      // existed before the last forget
}

// crowd has all pods, as one watch sees them. It is safe for concurrent use.
type crowd struct {
	pods  corev1.PodInterface
	watch watch.Interface
	ended chan struct{} // closed when the watch has ended

	mu      sync.Mutex
	made    int
	names   []string // of all seen pods, in the order of their creation
	seen    map[string]*seen
	changed chan struct{} // gets a value after a change, if there is room
}

// newCrowd watches the namespace, which has no pod yet. patient is a client without a request timeout. If the API
// server ends the watch of a slow client, the watch begins again.
func newCrowd(ctx context.Context, pods, patient corev1.PodInterface) (*crowd, error) {
	none, err := pods.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	watching, err := retry.NewRetryWatcherWithContext(ctx, none.ResourceVersion,
		&cache.ListWatch{WatchFuncWithContext: patient.Watch})
	if err != nil {
		return nil, err
	}
	c := &crowd{pods: pods, watch: watching, ended: make(chan struct{}), seen: make(map[string]*seen),
		changed: make(chan struct{}, 1)}
	go func() {
		defer close(c.ended)
		for event := range watching.ResultChan() {
			if pod, ok := event.Object.(*v1.Pod); ok {
				c.see(pod, event.Type == watch.Deleted, time.Now())
			}
		}
	}()
	return c, nil
}

func (c *crowd) close() {
	c.watch.Stop()
	<-c.ended
}

// see records a pod's state.
func (c *crowd) see(pod *v1.Pod, gone bool, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.seen[pod.Name]
	if s == nil {
		s = &seen{}
		c.seen[pod.Name] = s
		c.names = append(c.names, pod.Name)
	}
	s.created = pod.CreationTimestamp.Time
	if gone {
		s.gone = now
	}
	if s.ready.IsZero() && model.Ready(pod) {
		s.ready = model.FindCondition(pod.Status.Conditions, v1.PodReady).LastTransitionTime.Time
	}
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// create makes more pods.
func (c *crowd) create(ctx context.Context, n int, spec v1.PodSpec) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(clients)
	for range n {
		c.mu.Lock()
		name := fmt.Sprintf("pod-%d", c.made)
		c.made++
		c.mu.Unlock()
		group.Go(func() error {
			pod, err := c.pods.Create(ctx, &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec},
				metav1.CreateOptions{})
			if err == nil {
				c.see(pod, false, time.Now()) // its event may come later
			}
			return err
		})
	}
	return group.Wait()
}

// remove deletes pods by their names.
func (c *crowd) remove(ctx context.Context, names ...string) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(clients)
	for _, name := range names {
		c.mu.Lock()
		c.seen[name].deleted = time.Now()
		c.mu.Unlock()
		group.Go(func() error { return c.pods.Delete(ctx, name, metav1.DeleteOptions{}) })
	}
	return group.Wait()
}

// removeAll deletes the pods that are not deleted yet.
func (c *crowd) removeAll(ctx context.Context) error {
	return c.remove(ctx, c.named(func(s *seen) bool { return s.deleted.IsZero() && s.gone.IsZero() })...)
}

// removeOldest deletes the oldest Ready pods.
func (c *crowd) removeOldest(ctx context.Context, n int) error {
	names := c.named(func(s *seen) bool { return s.deleted.IsZero() && s.gone.IsZero() && !s.ready.IsZero() })
	return c.remove(ctx, names[:min(n, len(names))]...)
}

// named returns the names of the pods for which want returns true, the oldest first.
func (c *crowd) named(want func(*seen) bool) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(c.names), func(name string) bool { return !want(c.seen[name]) })
}

// forget marks the current pods as old, so that upTimes leaves them out, and drops the pods that are gone.
func (c *crowd) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, s := range c.seen {
		s.old = true
		if !s.gone.IsZero() {
			delete(c.seen, name)
		}
	}
	c.names = slices.DeleteFunc(c.names, func(name string) bool { return c.seen[name] == nil })
}

// tally has the number of pods in each state.
type tally struct {
	ready, waiting int // not deleted
	going          int // deleted, and not gone yet
	old            int // not deleted, from before the last forget
	deleted        int // since the last forget, gone or not
}

func (c *crowd) tally() tally {
	c.mu.Lock()
	defer c.mu.Unlock()
	var t tally
	for _, s := range c.seen {
		t.add(s)
	}
	return t
}

func (t *tally) add(s *seen) {
	if !s.deleted.IsZero() {
		t.deleted++
	}
	switch {
	case !s.gone.IsZero():
		return
	case !s.deleted.IsZero():
		t.going++
		return
	case s.ready.IsZero():
		t.waiting++
	default:
		t.ready++
	}
	if s.old {
		t.old++
	}
}

// settled returns an error, unless the node has exactly want pods and all of them are Ready.
func (t tally) settled(want int) error {
	if t.ready == want && t.waiting == 0 && t.going == 0 {
		return nil
	}
	return fmt.Errorf("%d pods are Ready, %d are not yet, and %d still terminate: want %d Ready", t.ready, t.waiting,
		t.going, want)
}

// await calls check after every change, and once in each period look, until check returns nil. It waits for patience at
// most.
func (c *crowd) await(ctx context.Context, patience time.Duration, check func(tally) error) error {
	limit, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	for {
		err := check(c.tally())
		if err == nil {
			return nil
		}
		select {
		case <-c.changed:
		case <-ticker.C:
		case <-c.ended:
			return errors.Join(errors.New("the API server ended the watch"), err)
		case <-limit.Done():
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return fmt.Errorf("after %v %w", patience, err)
		}
	}
}

// upTimes returns how long pods took from their creation to Ready, for the pods made since the last forget.
func (c *crowd) upTimes() times {
	return c.times(func(s *seen) (time.Time, time.Time) { return s.created, s.ready }, func(s *seen) bool {
		return !s.old && !s.ready.IsZero()
	})
}

// goneTimes returns how long pods took from their deletion until they were gone, for the pods that went since the last
// forget.
func (c *crowd) goneTimes() times {
	return c.times(func(s *seen) (time.Time, time.Time) { return s.deleted, s.gone }, func(s *seen) bool {
		return !s.deleted.IsZero() && !s.gone.IsZero()
	})
}

// times measures the pods for which selects returns true. span returns the two times of a pod to measure between.
func (c *crowd) times(span func(*seen) (from, to time.Time), selects func(*seen) bool) times {
	c.mu.Lock()
	defer c.mu.Unlock()
	var first, last time.Time
	var took []time.Duration
	for _, s := range c.seen {
		if !selects(s) {
			continue
		}
		from, to := span(s)
		took = append(took, to.Sub(from))
		if first.IsZero() || from.Before(first) {
			first = from
		}
		if to.After(last) {
			last = to
		}
	}
	return newTimes(took, last.Sub(first))
}

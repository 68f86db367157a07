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
)

const (
	// namespace is the pods'.
	namespace = "load"
	// patience bounds each wait for pods.
	patience = 8 * time.Minute
	// clients is how many requests are made at once.
	clients = 8
)

// seen is what is known of one pod.
type seen struct {
	created, ready time.Time // by the API server's stamps; ready is zero until then
	deleted, gone  time.Time // by our clock; zero until then
	counts         bool      // not forgotten
}

// crowd is all pods, as one watch sees them. It is safe for concurrent use.
type crowd struct {
	pods  corev1.PodInterface
	image string
	watch watch.Interface
	ended chan struct{} // closed when the watch has ended

	mu      sync.Mutex
	made    int
	names   []string // of those that are there, in the order of their making
	seen    map[string]*seen
	changed chan struct{} // gets a value after a change, if there is room
}

// newCrowd watches the namespace, in which there is no pod yet, by a client whose requests may take long.
func newCrowd(ctx context.Context, pods, patient corev1.PodInterface, image string) (*crowd, error) {
	watching, err := patient.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	c := &crowd{pods: pods, image: image, watch: watching, ended: make(chan struct{}), seen: make(map[string]*seen), changed: make(chan struct{}, 1)}
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

// see takes note of a pod's state.
func (c *crowd) see(pod *v1.Pod, gone bool, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.seen[pod.Name]
	if s == nil {
		s = &seen{counts: true}
		c.seen[pod.Name] = s
	}
	s.created = pod.CreationTimestamp.Time
	if gone {
		s.gone = now
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == v1.PodReady && condition.Status == v1.ConditionTrue && s.ready.IsZero() {
			s.ready = condition.LastTransitionTime.Time
		}
	}
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// create makes more pods.
func (c *crowd) create(ctx context.Context, n int) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(clients)
	for range n {
		c.mu.Lock()
		name := fmt.Sprintf("pod-%d", c.made)
		c.made++
		c.names = append(c.names, name)
		c.mu.Unlock()
		group.Go(func() error {
			pod, err := c.pods.Create(ctx, c.pod(name), metav1.CreateOptions{})
			if err == nil {
				c.see(pod, false, time.Now()) // the watch may tell it later
			}
			return err
		})
	}
	return group.Wait()
}

func (c *crowd) pod(name string) *v1.Pod {
	grace := int64(1)
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1.PodSpec{
			TerminationGracePeriodSeconds: &grace,
			Containers:                    []v1.Container{{Name: "main", Image: c.image, ImagePullPolicy: v1.PullIfNotPresent}},
		},
	}
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

// present are the names of pods that nobody deleted, the oldest first.
func (c *crowd) present() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(c.names), func(name string) bool { return c.seen[name] == nil || !c.seen[name].deleted.IsZero() })
}

func (c *crowd) removeAll(ctx context.Context) error { return c.remove(ctx, c.present()...) }

func (c *crowd) removeOldest(ctx context.Context) error { return c.remove(ctx, c.present()[0]) }

// forget leaves the pods of now out of the next times up, and those that are gone out of the next times gone.
func (c *crowd) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, s := range c.seen {
		s.counts = false
		if !s.gone.IsZero() {
			delete(c.seen, name)
			c.names = slices.DeleteFunc(c.names, func(one string) bool { return one == name })
		}
	}
}

// allReady says which pods are not ready, of those that nobody deleted.
func (c *crowd) allReady() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	waiting := 0
	for _, name := range c.names {
		if s := c.seen[name]; s == nil || s.deleted.IsZero() && s.ready.IsZero() {
			waiting++
		}
	}
	if waiting > 0 {
		return fmt.Errorf("%d pods are not ready", waiting)
	}
	return nil
}

// onlyLeft says whether there are other than that many pods.
func (c *crowd) onlyLeft(want int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	left := 0
	for _, s := range c.seen {
		if s.gone.IsZero() {
			left++
		}
	}
	if left != want {
		return fmt.Errorf("%d pods are left, want %d", left, want)
	}
	return nil
}

// await asks after every change until check returns nil.
func (c *crowd) await(ctx context.Context, check func() error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		err := check()
		if err == nil {
			return nil
		}
		select {
		case <-c.changed:
		case <-c.ended:
			return errors.Join(errors.New("the API server ended the watch"), err)
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		}
	}
}

// upTimes are how long the pods that are not forgotten took from their making to Ready.
func (c *crowd) upTimes() times {
	return c.times(func(s *seen) (time.Time, time.Time) { return s.created, s.ready }, func(s *seen) bool { return s.counts && !s.ready.IsZero() })
}

// goneTimes are how long the pods that went since the last forget took from their deletion.
func (c *crowd) goneTimes() times {
	return c.times(func(s *seen) (time.Time, time.Time) { return s.deleted, s.gone }, func(s *seen) bool { return !s.gone.IsZero() })
}

// times are those of the pods that count, from and to as of tells.
func (c *crowd) times(of func(*seen) (from, to time.Time), counts func(*seen) bool) times {
	c.mu.Lock()
	defer c.mu.Unlock()
	var first, last time.Time
	var took []time.Duration
	for _, s := range c.seen {
		if !counts(s) {
			continue
		}
		from, to := of(s)
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

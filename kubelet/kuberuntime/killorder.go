package kuberuntime

import (
	"context"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/kubelet/model"
)

// killOrder makes a sidecar wait for the containers that it serves: all app containers, and the init containers and
// sidecars that started after this sidecar (KEP-753). It is safe for concurrent use.
type killOrder struct {
	// done has a channel for each container name. The channel is closed when all attempts of the container have ended.
	done map[string]chan struct{}
	// waitsFor lists the names that a sidecar waits for.
	waitsFor map[string][]string

	mu sync.Mutex
	// remaining counts the attempts that have not ended, by container name.
	remaining map[string]int
}

func newKillOrder(pod *v1.Pod, kills []containerKill) *killOrder {
	o := &killOrder{done: map[string]chan struct{}{}, waitsFor: map[string][]string{}, remaining: map[string]int{}}
	for _, k := range kills {
		o.done[k.Container.Name] = make(chan struct{})
		o.remaining[k.Container.Name]++
	}
	var started []string // the names that start after the current one
	for i := range pod.Spec.Containers {
		started = append(started, pod.Spec.Containers[i].Name)
	}
	for i := len(pod.Spec.InitContainers) - 1; i >= 0; i-- {
		c := &pod.Spec.InitContainers[i]
		if model.IsSidecar(c) {
			o.waitsFor[c.Name] = append([]string(nil), started...)
		}
		started = append(started, c.Name)
	}
	return o
}

// wait returns when all containers that must end before this one have ended. It waits at most until the deadline or the
// end of ctx.
func (o *killOrder) wait(ctx context.Context, name string, deadline time.Time) {
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	for _, other := range o.waitsFor[name] {
		ended, running := o.done[other]
		if !running || other == name {
			continue
		}
		select {
		case <-ended:
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// ended is called once per attempt in kills.
func (o *killOrder) ended(name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.remaining[name]--; o.remaining[name] == 0 {
		close(o.done[name])
	}
}

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
	// over has a channel for each container name. The channel is closed when all attempts of the container have ended.
	over map[string]chan struct{}
	// after lists the names that a sidecar waits for.
	after map[string][]string

	mu sync.Mutex
	// left counts the attempts that have not ended, by container name.
	left map[string]int
}

func newKillOrder(pod *v1.Pod, kills []containerKill) *killOrder {
	o := &killOrder{over: map[string]chan struct{}{}, after: map[string][]string{}, left: map[string]int{}}
	for _, k := range kills {
		o.over[k.Container.Name] = make(chan struct{})
		o.left[k.Container.Name]++
	}
	var started []string // the names that start after the current one
	for i := range pod.Spec.Containers {
		started = append(started, pod.Spec.Containers[i].Name)
	}
	for i := len(pod.Spec.InitContainers) - 1; i >= 0; i-- {
		c := &pod.Spec.InitContainers[i]
		if model.IsSidecar(c) {
			o.after[c.Name] = append([]string(nil), started...)
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
	for _, other := range o.after[name] {
		over, running := o.over[other]
		if !running || other == name {
			continue
		}
		select {
		case <-over:
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
	if o.left[name]--; o.left[name] == 0 {
		close(o.over[name])
	}
}

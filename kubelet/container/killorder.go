package container

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/kubelet/model"
)

// killOrder lets sidecars end after the containers that they serve: all app containers, and the init containers and
// sidecars that started after them (KEP-753).
type killOrder struct {
	// over is closed when the container of that name has ended.
	over map[string]chan struct{}
	// after lists the names that a sidecar waits for.
	after map[string][]string
}

func newKillOrder(pod *v1.Pod, kills []Kill) *killOrder {
	o := &killOrder{over: map[string]chan struct{}{}, after: map[string][]string{}}
	for _, k := range kills {
		o.over[k.Container.Name] = make(chan struct{})
	}
	var started []string // the names that start after the one that is looked at
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

func (o *killOrder) isSidecar(name string) bool {
	_, ok := o.after[name]
	return ok
}

// wait returns when the container's turn has come, or at the deadline, or when ctx ends.
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

// ended is called once for each container name... two attempts of one name may both run, so a second call is harmless.
func (o *killOrder) ended(name string) {
	select {
	case <-o.over[name]:
	default:
		close(o.over[name])
	}
}

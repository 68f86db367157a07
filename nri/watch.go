package nri

import (
	"context"
	"sync"

	"github.com/containerd/nri/pkg/api"

	"github.com/criadapter/criadapter/internal/keylock"
	"github.com/criadapter/criadapter/state"
)

// reported has the pods and containers whose end or removal the plugins know, by id. The zero value is empty.
type reported struct {
	locks            keylock.Locks
	mu               sync.Mutex
	stopped, removed map[string]bool
}

// end calls report if the end is new. It returns when the end has been reported, even if another caller reports it.
func (r *reported) end(ctx context.Context, id string, report func()) {
	r.once(ctx, &r.stopped, id, report)
}

// removal is end for a removal.
func (r *reported) removal(ctx context.Context, id string, report func()) {
	r.once(ctx, &r.removed, id, report)
}

func (r *reported) once(ctx context.Context, in *map[string]bool, id string, report func()) {
	unlock, err := r.locks.Lock(ctx, id)
	if err != nil {
		return // the caller is gone
	}
	defer unlock()
	if r.record(in, id) {
		report()
	}
}

func (r *reported) record(in *map[string]bool, id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if (*in)[id] {
		return false
	}
	if *in == nil {
		*in = map[string]bool{}
	}
	(*in)[id] = true
	return true
}

// runs forgets the end of a container that runs again.
func (r *reported) runs(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.stopped, id)
}

// forget drops the entries of a pod or container that is gone.
func (r *reported) forget(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.stopped, id)
	delete(r.removed, id)
}

// watch reports to the plugins which containers end, and which pods and containers other programs end or remove.
func (s *Service) watch(ctx context.Context) {
	changes := s.opts.Cache.Subscribe()
	for _, c := range s.opts.Cache.Snapshot().Containers() {
		if c.Status.State() == stateExited {
			s.reported.record(&s.reported.stopped, c.ID) // plugins have seen it in their first list
		}
	}
	for ctx.Err() == nil {
		for {
			change, err := changes.Next(ctx)
			if err != nil {
				break // ctx has ended, or changes were lost
			}
			s.changed(ctx, change)
		}
		changes.Close()
		changes = s.opts.Cache.Subscribe()
		snapshot := s.opts.Cache.Snapshot()
		for _, c := range snapshot.Containers() { // ends among the lost changes
			pod, err := snapshot.Pod(c.SandboxID)
			if err == nil && c.Status.State() == stateExited && ctx.Err() == nil {
				s.containerEnded(ctx, pod, c)
			}
		}
	}
	changes.Close()
}

func (s *Service) changed(ctx context.Context, change state.Change) {
	isPod := change.Pod != nil && change.Pod.ID == change.ID
	switch {
	case change.Type == state.Stopped && isPod:
		if !change.Pod.Status.Stopping { // StopPodSandbox reports the end when the containers have ended
			s.StopPod(ctx, change.Pod)
		}
	case change.Type == state.Stopped:
		for _, c := range change.Containers {
			if c.ID == change.ID {
				s.containerEnded(ctx, change.Pod, c)
			}
		}
	case change.Type == state.Deleted && isPod:
		s.RemovePod(ctx, change.Pod)
		s.reported.forget(change.ID)
	case change.Type == state.Deleted:
		s.reported.removal(ctx, change.ID, func() { // another program has removed it
			s.tell(ctx, "RemoveContainer", func() error {
				return s.removed(ctx, change.Pod, &api.Container{Id: change.ID, PodSandboxId: podID(change.Pod)})
			})
		})
		s.reported.forget(change.ID)
	}
}

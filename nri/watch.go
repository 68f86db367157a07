package nri

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/containerd/nri/pkg/api"

	"github.com/criadapter/criadapter/internal/keylock"
	"github.com/criadapter/criadapter/state"
)

// reported has the ends and removals that the plugins know, by the id of the pod or container. A container's entry in
// stopped has the start times of its last ended runs. A pod's entry in stopped, and each entry in removed, has the zero
// time. The zero value of reported is ready to use.
type reported struct {
	locks            keylock.Locks
	mu               sync.Mutex
	stopped, removed map[string][]time.Time
}

// keptRuns is how many ended runs of a container are remembered. It bounds the memory for a container that restarts for
// ever.
const keptRuns = 8

// reportTime bounds a report.
const reportTime = 30 * time.Second

// end calls report if the end of this run has not been reported. It returns when the end has been reported, even if
// another caller reports it. report does not end with the caller's context, because it is not repeated. run is the
// start time of the run. end compares start times only for equality, because the clock may be set back between two
// runs. If run is zero and any end of this id has been reported, end does not call report.
func (r *reported) end(ctx context.Context, id string, run time.Time, report func(context.Context)) {
	r.once(ctx, &r.stopped, id, run, report)
}

// removal is end for a removal.
func (r *reported) removal(ctx context.Context, id string, report func(context.Context)) {
	r.once(ctx, &r.removed, id, time.Time{}, report)
}

func (r *reported) once(
	ctx context.Context, in *map[string][]time.Time, id string, run time.Time, report func(context.Context),
) {
	unlock, err := r.locks.Lock(ctx, id)
	if err != nil {
		return // the caller is gone
	}
	defer unlock()
	if r.record(in, id, run) {
		settle, cancel := context.WithTimeout(context.WithoutCancel(ctx), reportTime)
		defer cancel()
		report(settle)
	}
}

func (r *reported) record(in *map[string][]time.Time, id string, run time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	runs := (*in)[id]
	if slices.ContainsFunc(runs, run.Equal) || run.IsZero() && len(runs) > 0 {
		return false
	}
	if *in == nil {
		*in = map[string][]time.Time{}
	}
	(*in)[id] = append(runs[max(0, len(runs)-keptRuns+1):], run)
	return true
}

// forget drops the entries of a pod or container that is gone.
func (r *reported) forget(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.stopped, id)
	delete(r.removed, id)
}

// ids returns the ids of all entries.
func (r *reported) ids() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.AppendSeq(slices.Collect(maps.Keys(r.stopped)), maps.Keys(r.removed))
}

// watch reports to the plugins which containers end, and which pods and containers other programs end or remove. It
// begins at a snapshot that is not newer than the plugins' first list.
func (s *Service) watch(ctx context.Context, first *state.Snapshot) {
	for _, c := range first.Containers() {
		if c.Status.State() == stateExited {
			s.reported.record(&s.reported.stopped, c.ID, c.Status.StartedAt) // plugins see it in their first list
		}
	}
	seen := knownOf(first)
	for ctx.Err() == nil {
		changes := s.opts.Cache.Subscribe()
		now, gone := s.catchUp(ctx, seen)
		s.follow(ctx, changes, now, gone)
		changes.Close()
		seen = now
	}
}

// follow reports changes and adds them to seen, until ctx ends or changes are lost. It leaves out ids in gone: catchUp
// has reported their removal.
func (s *Service) follow(ctx context.Context, changes *state.Subscription, seen known, gone map[string]bool) {
	for {
		change, err := changes.Next(ctx)
		if err != nil {
			return // ctx has ended, or changes were lost
		}
		if !gone[change.ID] {
			s.changed(ctx, change)
		}
		seen.see(change, gone)
	}
}

// catchUp reports the changes between seen and now, which has the present pods and containers. gone has the ids of
// removed pods and containers. A subscription from before the call may still deliver their changes, which must not be
// reported again.
func (s *Service) catchUp(ctx context.Context, seen known) (now known, gone map[string]bool) {
	ids := s.reported.ids() // read before the snapshot, so an id that the snapshot lacks was removed
	now = knownOf(s.opts.Cache.Snapshot())
	gone = seen.missing(now)
	for _, change := range seen.changesTo(now) {
		if ctx.Err() != nil {
			return now, gone
		}
		s.changed(ctx, change)
	}
	for _, id := range ids {
		if now.pods[id] == nil && now.containers[id] == nil {
			gone[id] = true
			s.reported.forget(id)
		}
	}
	return now, gone
}

// endedRun returns the start of the run that ended in a change to c. If c runs again, the start of the ended run is
// unknown, and endedRun returns the time just before the present start.
func endedRun(c *state.Container) time.Time {
	if c.Status.Running {
		return c.Status.StartedAt.Add(-1)
	}
	return c.Status.StartedAt
}

func (s *Service) changed(ctx context.Context, change state.Change) {
	isPod := change.Pod != nil && change.Pod.ID == change.ID
	switch {
	case change.Type == state.Stopped && isPod:
		// StopPodSandbox reports the end when the containers have ended. The containers of a pod that has only lost its
		// network still run.
		if !change.Pod.Status.Stopping && !change.Pod.Status.Running {
			s.StopPod(ctx, change.Pod)
		}
	case change.Type == state.Stopped:
		for _, c := range change.Containers {
			if c.ID == change.ID {
				s.containerEnded(ctx, change.Pod, c, endedRun(c))
			}
		}
	case change.Type == state.Deleted && isPod:
		s.RemovePod(ctx, change.Pod)
		s.reported.forget(change.ID)
	case change.Type == state.Deleted:
		s.reported.removal(ctx, change.ID, func(ctx context.Context) { // another program has removed it
			s.tell(ctx, "RemoveContainer", func() error {
				return s.removed(ctx, change.Pod,
					&api.Container{Id: change.ID, PodSandboxId: describePod(change.Pod).GetId()})
			})
		})
		s.reported.forget(change.ID)
	}
}

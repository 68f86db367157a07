package container

import (
	"context"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"

	"github.com/criadapter/criadapter/state"
)

// runs has the start of each container's last known run. The zero value is empty.
type runs struct {
	mu     sync.Mutex
	starts map[string]time.Time
}

// begin records a run of a container, and reports whether it is a new one.
func (r *runs) begin(c *state.Container) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.starts[c.ID].Equal(c.Status.StartedAt) {
		return false
	}
	if r.starts == nil {
		r.starts = map[string]time.Time{}
	}
	r.starts[c.ID] = c.Status.StartedAt
	return true
}

func (r *runs) forget(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.starts, id)
}

// Watch looks after containers that other clients start (docker start, docker restart). It follows their logs, and
// writes again the limits that the Docker API has no field for. It drops the records of containers that other clients
// remove. It saves ends that no exit hook has seen. It tries again to resume logs that Recover could not resume, as
// long as their containers exist. It resumes containers that a checkpoint left paused, and removes unfinished
// checkpoints. Watch returns ctx's error when ctx and its goroutines have ended.
func (s *Service) Watch(ctx context.Context) error {
	ctx = log.WithLogger(ctx, log.L.WithField("component", "container"))
	var group sync.WaitGroup
	defer group.Wait()
	for _, id := range s.unresumed.take() {
		group.Go(func() { s.retryLog(ctx, id) })
	}
	group.Go(func() { s.doLater(ctx, &group) })
	for _, pod := range s.opts.Cache.Snapshot().Pods() {
		for _, id := range s.leftPaused(ctx, pod.ID) {
			group.Go(func() { s.retryResume(ctx, pod.ID, id) })
		}
		for _, dir := range s.leftWorkDirs(ctx, pod.ID) {
			group.Go(func() { s.retryRemove(ctx, pod.ID, dir) })
		}
	}
	for ctx.Err() == nil {
		changes := s.opts.Cache.Subscribe()
		for _, c := range s.opts.Cache.Snapshot().Containers() { // containers whose events were missed
			group.Go(func() { s.lookAfter(ctx, c.ID) })
		}
		for _, pod := range s.opts.Cache.Snapshot().Pods() {
			group.Go(func() { s.tidy(ctx, pod) })
		}
		for {
			change, err := changes.Next(ctx)
			if err != nil {
				break // ctx has ended, or changes were lost
			}
			switch change.Type {
			case state.Started:
				group.Go(func() { s.lookAfter(ctx, change.ID) })
			case state.Deleted:
				s.runs.forget(change.ID)
				if pod := change.Pod; pod != nil && pod.ID != change.ID {
					group.Go(func() { s.forgetRemoved(ctx, pod, change.ID) })
				}
			}
		}
		changes.Close()
	}
	return ctx.Err()
}

// leaveToWatch queues work for Watch. It drops the work if the queue is full.
func (s *Service) leaveToWatch(work func(context.Context)) {
	select {
	case s.later <- work:
	default:
	}
}

// doLater does the work that leaveToWatch queued, until ctx ends.
func (s *Service) doLater(ctx context.Context, group *sync.WaitGroup) {
	for {
		select {
		case work := <-s.later:
			group.Go(func() { work(ctx) })
		case <-ctx.Done():
			return
		}
	}
}

// forgetRemoved drops the record of a container of the pod that the engine has removed. A Remove under way, or the
// removal of the pod, does that itself.
func (s *Service) forgetRemoved(ctx context.Context, pod *state.Pod, id string) {
	unlock, err := s.locks.Lock(ctx, id)
	if err != nil {
		return // ctx has ended
	}
	defer unlock()
	kept, err := s.loadRecord(ctx, pod.ID, id)
	if err == nil && kept != nil {
		err = s.dropRecord(ctx, pod.ID, id)
	}
	if err != nil && ctx.Err() == nil {
		log.G(ctx).WithError(err).WithFields(pod.LogFields()).Warn("cannot drop removed container from checkpoint")
	}
}

// tidy is tidyRecord, but logs a failure.
func (s *Service) tidy(ctx context.Context, pod *state.Pod) {
	if err := s.tidyRecord(ctx, pod.ID); err != nil && ctx.Err() == nil {
		log.G(ctx).WithError(err).WithFields(pod.LogFields()).
			Warn("cannot save which containers have ended or are removed")
	}
}

// lookAfter restores the limits and the log of a container, unless this was done since the container's start. A
// container with a short run may have ended already.
func (s *Service) lookAfter(ctx context.Context, id string) {
	if c, began := s.beginRun(ctx, id); began && !s.resumeLog(ctx, c) {
		s.retryLog(ctx, id)
	}
}

// Once for each run, beginRun writes the limits that the Docker API has no field for. began reports whether it did. c
// is nil when the container is gone.
func (s *Service) beginRun(ctx context.Context, id string) (c *state.Container, began bool) {
	// A Start or Update under way holds the lock and writes the limits itself. The lock does not cover the log: the
	// last run's log may have to be completed first, on a full disk.
	c, unlock, err := s.lock(ctx, id)
	if err != nil {
		return nil, false
	}
	defer unlock()
	if !s.runs.begin(c) {
		return c, false
	}
	s.watchOOM(c)
	if _, err := s.limit(ctx, c, "config.linux.resources", c.Status.Resources.GetLinux()); err != nil {
		log.G(ctx).WithError(err).WithFields(c.LogFields()).Warn("cannot set cgroup limits of container")
	}
	return c, true
}

// resumeLog resumes the log of a container that was started before, and reports whether no retry is needed. A log
// driver without a file, such as journald, never needs one.
func (s *Service) resumeLog(ctx context.Context, c *state.Container) bool {
	ctx = log.WithLogger(ctx, log.G(ctx).WithFields(c.LogFields()))
	err := s.recoverLog(ctx, c)
	switch {
	case err == nil:
		return true
	case errdefs.IsNotImplemented(err):
		log.G(ctx).WithError(err).Warn("container has no CRI log, look where the engine's log driver writes")
		return true
	}
	log.G(ctx).WithError(err).Warn("cannot resume container log, trying again")
	return false
}

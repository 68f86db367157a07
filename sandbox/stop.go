package sandbox

import (
	"context"
	"errors"

	"github.com/containerd/errdefs"
	"github.com/sirupsen/logrus"
	"golang.org/x/sync/errgroup"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/netns"
	"github.com/criadapter/criadapter/state"
)

// Stop ends the pod's containers and its sandbox and gives its addresses back
// (CRI StopPodSandbox). It is idempotent, and a pod that is not known has
// nothing left to reclaim. After an error, repeat it.
func (s *Service) Stop(ctx context.Context, id string) error {
	pod, err := s.opts.Mirror.Snapshot().Pod(id)
	if err != nil {
		return ignoreNotFound(err)
	}
	s.flights.drop(pod.Meta.Name, pod.ID)
	if err := s.markStopping(ctx, pod); err != nil {
		return err
	}
	if err := s.forContainers(ctx, pod.ID, func(ctx context.Context, id string) error {
		return s.opts.Containers.Stop(ctx, id, 0)
	}); err != nil {
		return err
	}
	return s.tearDown(ctx, pod)
}

// markStopping makes the pod NOTREADY, so that no container joins it any more.
func (s *Service) markStopping(ctx context.Context, pod *state.Pod) error {
	unlock, err := s.locks.Lock(ctx, pod.ID)
	if err != nil {
		return err
	}
	defer unlock()
	s.opts.Mirror.UpdatePod(pod.ID, func(st *state.PodStatus) { st.Stopping = true })
	return nil
}

// tearDown takes the pod off the network while its sandbox ends: the pinned
// namespace outlives the sandbox, so neither needs to wait for the other.
func (s *Service) tearDown(ctx context.Context, pod *state.Pod) error {
	unlock, err := s.locks.Lock(ctx, pod.ID)
	if err != nil {
		return err
	}
	defer unlock()
	record, err := s.recordOf(pod)
	if err != nil {
		return err
	}
	if record.Phase == checkpoint.PhaseStopped && !pod.Status.Running {
		return nil
	}
	var group errgroup.Group // one failing must not cut the other short
	var disconnectErr, stopErr error
	group.Go(func() error { disconnectErr = s.release(ctx, pod, record); return nil })
	group.Go(func() error { stopErr = s.stopSandbox(ctx, pod.ID); return nil })
	_ = group.Wait()
	if err := errors.Join(disconnectErr, stopErr); err != nil {
		return err
	}
	s.notePhase(pod, checkpoint.PhaseStopped)
	return nil
}

// recordOf returns the pod's checkpoint. Where that is lost, a pin of ours says
// that the pod was joined to a network, and its id is enough to take it off.
func (s *Service) recordOf(pod *state.Pod) (checkpoint.Record, error) {
	record, err := s.opts.Store.Load(pod.ID)
	if !errdefs.IsNotFound(err) {
		return record, err
	}
	metadata := pod.Meta.Config.GetMetadata()
	record = checkpoint.Record{
		SandboxID: pod.ID,
		Name:      metadata.GetName(),
		Namespace: metadata.GetNamespace(),
		UID:       metadata.GetUid(),
		Attempt:   metadata.GetAttempt(),
	}
	if path := s.netnsPath(pod.ID); netns.Open(path).Alive() {
		record.NetnsPath = path
	}
	return record, nil
}

// notePhase changes the phase in the pod's checkpoint. A disk that takes no
// more must not keep a pod from being stopped and removed, which is what makes
// room: without the note, a later call only does again what is done.
func (s *Service) notePhase(pod *state.Pod, phase checkpoint.Phase) {
	err := s.opts.Store.Update(pod.ID, func(r *checkpoint.Record) error {
		r.Phase = phase
		return nil
	})
	if ignoreNotFound(err) != nil {
		logrus.WithError(err).WithField("sandbox", pod.Meta.Name).Warn("cannot note in a pod's checkpoint how far its end has come")
	}
}

// release gives the pod's addresses back and then lets its namespace go.
func (s *Service) release(ctx context.Context, pod *state.Pod, record checkpoint.Record) error {
	if record.NetnsPath == "" {
		return nil
	}
	if record.Phase == checkpoint.PhaseReady {
		// After a crash in the middle of CNI DEL the next start must not show a
		// running sandbox without a network as READY.
		s.notePhase(pod, checkpoint.PhaseIntent)
	}
	if err := s.disconnect(ctx, record, pod.Meta.Config); err != nil {
		return err
	}
	return netns.Open(record.NetnsPath).Unpin()
}

func (s *Service) stopSandbox(ctx context.Context, id string) error {
	if err := ignoreNotFound(s.opts.Engine.StopContainer(ctx, id, stopGrace)); err != nil {
		return err
	}
	_, err := s.opts.Mirror.RefreshPod(ctx, id)
	return ignoreNotFound(err)
}

// forContainers does one thing to all containers of a pod, side by side.
func (s *Service) forContainers(ctx context.Context, sandboxID string, do func(context.Context, string) error) error {
	var group errgroup.Group
	for _, c := range s.opts.Mirror.Snapshot().ContainersOf(sandboxID) {
		group.Go(func() error { return do(ctx, c.ID) })
	}
	return group.Wait()
}

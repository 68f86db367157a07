package sandbox

import (
	"context"
	"errors"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"
	"golang.org/x/sync/errgroup"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/internal/netns"
	"github.com/criadapter/criadapter/state"
)

// Stop ends the pod's containers and its sandbox and gives its addresses back (CRI StopPodSandbox). It is idempotent,
// and a pod that is not known has nothing left to reclaim but what the CNI cache names. After an error, repeat it.
func (s *Service) Stop(ctx context.Context, id string) error {
	pod, err := s.opts.Cache.Snapshot().Pod(id)
	if errdefs.IsNotFound(err) {
		return s.releaseUnknown(ctx, id)
	}
	if err != nil {
		return err
	}
	// Before anything ends: without its record the pod could not be taken off the network afterwards.
	if _, err := s.recordOf(ctx, pod); err != nil {
		return err
	}
	s.inflight.drop(pod.Meta.Name, pod.ID)
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
	s.opts.Cache.UpdatePod(pod.ID, func(st *state.PodStatus) { st.Stopping = true })
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
	record, err := s.recordOf(ctx, pod)
	if err != nil {
		return err
	}
	if record.Phase == checkpoint.PhaseStopped && !pod.Status.Running {
		return nil
	}
	var group errgroup.Group // one failing must not cut the other short
	var disconnectErr, stopErr error
	group.Go(func() error { disconnectErr = s.release(ctx, pod, record); return nil })
	group.Go(func() error { stopErr = s.holderOf(record).stop(ctx, pod.ID); return nil })
	_ = group.Wait()
	if err := errors.Join(disconnectErr, stopErr); err != nil {
		return err
	}
	if err := unpinUsers(record); err != nil {
		return err
	}
	s.notePhase(ctx, pod, checkpoint.PhaseStopped)
	return nil
}

// recordOf returns the pod's checkpoint. Where that is lost, the pod's id is enough to take it off the network.
func (s *Service) recordOf(ctx context.Context, pod *state.Pod) (checkpoint.Record, error) {
	record, err := s.opts.Store.Load(ctx, pod.ID)
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
	if h := (kernelHolder{s}); h.holds(pod.ID) {
		record.Namespaces = h.namespacesOf(pod.ID)
	} else {
		record.UserNamespace = s.usersPath(pod.Meta.Name)
	}
	joined, err := s.mayBeJoined(pod)
	if joined {
		record.NetnsPath = s.netnsPath(pod.ID)
	}
	return record, err
}

// mayBeJoined reports whether a pod without a checkpoint may have been joined to a CNI network: any pod with a network
// of its own. With EngineBridge it is one that the CNI cache or a pin names.
func (s *Service) mayBeJoined(pod *state.Pod) (bool, error) {
	switch {
	case pod.Meta.HostNetwork:
		return false, nil
	case !s.opts.EngineBridge, netns.Open(s.netnsPath(pod.ID)).Alive():
		return true, nil
	}
	return s.opts.Network.Joined(pod.ID)
}

// notePhase changes the phase in the pod's checkpoint. A disk that takes no more must not keep a pod from being stopped
// and removed, which is what makes room: without the note, a later call only does again what is done.
func (s *Service) notePhase(ctx context.Context, pod *state.Pod, phase checkpoint.Phase) {
	err := s.opts.Store.Update(ctx, pod.ID, func(r *checkpoint.Record) error {
		r.Phase = phase
		return nil
	})
	if docker.IgnoreNotFound(err) != nil {
		log.G(ctx).WithError(err).WithFields(log.Fields{"podSandboxID": pod.ID, "phase": phase}).Warn("cannot save phase in checkpoint")
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
		s.notePhase(ctx, pod, checkpoint.PhaseIntent)
	}
	if err := s.disconnect(ctx, record, pod.Meta.Config); err != nil {
		return err
	}
	return netns.Open(record.NetnsPath).Unpin()
}

// forContainers does one thing to all containers of a pod, side by side.
func (s *Service) forContainers(ctx context.Context, sandboxID string, do func(context.Context, string) error) error {
	var group errgroup.Group
	for _, c := range s.opts.Cache.Snapshot().ContainersOf(sandboxID) {
		group.Go(func() error { return do(ctx, c.ID) })
	}
	return group.Wait()
}

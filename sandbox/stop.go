package sandbox

import (
	"context"
	"errors"

	"github.com/containerd/errdefs"
	"golang.org/x/sync/errgroup"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/internal/netns"
	"github.com/criadapter/criadapter/state"
)

// Stop ends the pod's containers and its sandbox and gives its addresses back (CRI StopPodSandbox). It is idempotent.
// For a pod that the cache lacks it releases the remaining addresses, namespaces and files. After an error, repeat it.
func (s *Service) Stop(ctx context.Context, id string) error {
	pod, err := s.opts.Cache.Snapshot().Pod(id)
	if errdefs.IsNotFound(err) {
		return s.releaseUnknown(ctx, id)
	}
	if err != nil {
		return err
	}
	// The record is read before any container ends. Without it the pod could not be taken off the network.
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

// tearDown takes the pod off the network while its sandbox ends. The two steps need not wait for each other, because
// the pinned namespace outlives the sandbox.
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
	var group errgroup.Group // without a context: a failure of one call must not cancel the other
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
	s.savePhase(ctx, pod, checkpoint.PhaseStopped)
	s.opts.Plugins.StopPod(ctx, pod)
	return nil
}

// release gives the pod's addresses back and then unpins its network namespace.
func (s *Service) release(ctx context.Context, pod *state.Pod, record checkpoint.Record) error {
	if record.NetnsPath == "" {
		return nil
	}
	if record.Phase == checkpoint.PhaseReady {
		// After a crash in the middle of CNI DEL, the next start must not show a running sandbox without a network as
		// READY.
		s.savePhase(ctx, pod, checkpoint.PhaseIntent)
	}
	if err := s.network.disconnect(ctx, record, pod.Meta.Config); err != nil {
		return err
	}
	return netns.Open(record.NetnsPath).Unpin()
}

// forContainers calls act for all containers of a pod, side by side.
func (s *Service) forContainers(ctx context.Context, sandboxID string, act func(context.Context, string) error) error {
	var group errgroup.Group
	for _, c := range s.opts.Cache.Snapshot().ContainersOf(sandboxID) {
		group.Go(func() error { return act(ctx, c.ID) })
	}
	return group.Wait()
}

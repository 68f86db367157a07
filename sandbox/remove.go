package sandbox

import (
	"context"
	"fmt"

	"github.com/containerd/errdefs"
)

// Remove stops the pod and removes its containers, sandbox, cgroup, files and checkpoint (CRI RemovePodSandbox). It is
// idempotent: an unknown id succeeds. Remove deletes the checkpoint last. Until then the pod stays visible and the call
// can be repeated.
func (s *Service) Remove(ctx context.Context, id string) (err error) {
	pod, err := s.opts.Cache.Snapshot().Pod(id)
	if errdefs.IsNotFound(err) {
		return s.releaseUnknown(ctx, id)
	}
	if err != nil {
		return err
	}
	if err := s.Stop(ctx, pod.ID); err != nil {
		return err
	}
	done := s.opts.Containers.LeavePod(pod)
	defer func() { done(err == nil) }()
	if err := s.forContainers(ctx, pod.ID, s.opts.Containers.Remove); err != nil {
		return err
	}
	if err := s.opts.Containers.RemoveUnfinished(ctx, pod.ID); err != nil {
		return err
	}
	unlock, err := s.locks.Lock(ctx, pod.ID)
	if err != nil {
		return err
	}
	defer unlock()
	record, err := s.recordOf(ctx, pod)
	if err != nil {
		return err
	}
	defer s.opts.Plugins.Block()()
	s.opts.Plugins.RemovePod(ctx, pod)
	if err := s.holderOf(record).remove(ctx, pod.ID); err != nil {
		return err
	}
	s.cgroups.remove(ctx, record)
	if err := s.opts.Files.remove(pod.ID); err != nil {
		return fmt.Errorf("removing the pod's files: %w", err)
	}
	if s.opts.Forget != nil {
		if err := s.opts.Forget(pod.ID); err != nil {
			return err
		}
	}
	if err := s.opts.Store.Delete(ctx, pod.ID); err != nil {
		return err
	}
	s.opts.Cache.RemovePod(pod.ID)
	return nil
}

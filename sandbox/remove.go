package sandbox

import (
	"context"
	"fmt"
)

// Remove stops the pod if need be and removes its containers, its sandbox and
// all that was kept of it (CRI RemovePodSandbox). It is idempotent, unknown ids
// succeed. The checkpoint goes last: until then the pod stays visible and the
// call can be repeated.
func (s *Service) Remove(ctx context.Context, id string) error {
	pod, err := s.opts.Mirror.Snapshot().Pod(id)
	if err != nil {
		return ignoreNotFound(err)
	}
	if err := s.Stop(ctx, pod.ID); err != nil {
		return err
	}
	if err := s.forContainers(ctx, pod.ID, s.opts.Containers.Remove); err != nil {
		return err
	}
	unlock, err := s.locks.Lock(ctx, pod.ID)
	if err != nil {
		return err
	}
	defer unlock()
	if err := ignoreNotFound(s.opts.Engine.RemoveContainer(ctx, pod.ID)); err != nil {
		return err
	}
	if err := s.opts.Files.remove(pod.ID); err != nil {
		return fmt.Errorf("removing the pod's files: %w", err)
	}
	if err := s.opts.Store.Delete(pod.ID); err != nil {
		return err
	}
	s.opts.Mirror.RemovePod(pod.ID)
	return nil
}

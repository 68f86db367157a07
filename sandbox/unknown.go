package sandbox

import (
	"context"
	"fmt"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"

	"github.com/criadapter/criadapter/cni"
	"github.com/criadapter/criadapter/internal/netns"
)

// releaseUnknown gives back the addresses of a pod without checkpoint and container, if the CNI cache or a directory of
// criadapter names the pod. It does nothing for an unknown id.
func (s *Service) releaseUnknown(ctx context.Context, id string) error {
	if err := s.opts.Cache.Err(); err != nil {
		return err // the engine may have the pod
	}
	if _, err := s.opts.Store.Load(ctx, id); !errdefs.IsNotFound(err) {
		if errdefs.IsInvalidArgument(err) {
			return nil // the text is no id of a sandbox
		}
		return err // nil for a pod that is being set up
	}
	unlock, err := s.locks.Lock(ctx, id)
	if err != nil {
		return err
	}
	defer unlock()
	joined, err := s.opts.Network.Joined(id)
	if err != nil {
		return err
	}
	if s.kernel.holds(id) {
		return s.releaseStray(ctx, id, joined)
	}
	if !joined && !s.opts.Files.has(id) {
		return nil
	}
	if _, err := s.opts.Engine.InspectContainer(ctx, id); !errdefs.IsNotFound(err) {
		return err // nil for another criadapter's pod
	}
	log.G(ctx).WithField("podSandboxID", id).
		Warn("pod sandbox is known from the CNI cache or its files alone, removing it")
	return s.releaseHeld(ctx, id, joined)
}

// releaseStray removes a pod that has namespaces, but neither a sandbox container nor a record.
func (s *Service) releaseStray(ctx context.Context, id string, joined bool) error {
	log.G(ctx).WithField("podSandboxID", id).Warn("pod sandbox is known from its namespaces alone, removing it")
	if err := s.releaseHeld(ctx, id, joined); err != nil {
		return err
	}
	return s.kernel.remove(ctx, id)
}

// releaseHeld releases the addresses, the network pin and the files of a pod. The files go last, because they mark the
// pod as a pod of this criadapter.
func (s *Service) releaseHeld(ctx context.Context, id string, joined bool) error {
	path := s.network.netnsPath(id)
	if joined {
		if err := s.opts.Network.Del(ctx, cni.Pod{ID: id, NetnsPath: path}, ""); err != nil {
			return err
		}
	}
	if err := netns.Open(path).Unpin(); err != nil {
		return err
	}
	if err := s.opts.Files.remove(id); err != nil {
		return fmt.Errorf("removing the pod's files: %w", err)
	}
	return nil
}

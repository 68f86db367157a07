package sandbox

import (
	"context"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/internal/netns"
	"github.com/criadapter/criadapter/state"
)

// recordOf returns the pod's checkpoint. If the checkpoint is lost, it returns a record with the pod's metadata, its
// namespaces and the pin of its network. This is enough to take the pod off the network.
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
	if s.kernel.holds(pod.ID) {
		record.Namespaces = s.kernel.namespacesOf(pod.ID)
	} else {
		record.UserNamespace = s.users.path(pod.Meta.Name)
	}
	joined, err := s.mayBeJoined(pod)
	if joined {
		record.NetnsPath = s.network.netnsPath(pod.ID)
	}
	return record, err
}

// mayBeJoined reports whether a pod without a checkpoint may have been joined to a CNI network. Any pod with a network
// of its own may. With EngineBridge, the CNI cache or a pin must name the pod.
func (s *Service) mayBeJoined(pod *state.Pod) (bool, error) {
	switch {
	case pod.Meta.HostNetwork:
		return false, nil
	case !s.opts.EngineBridge, netns.Open(s.network.netnsPath(pod.ID)).Alive():
		return true, nil
	}
	return s.opts.Network.Joined(pod.ID)
}

// savePhase changes the phase in the pod's checkpoint. A full disk must not keep a pod from being stopped and removed,
// which makes room. Without the phase, a later call only repeats its steps.
func (s *Service) savePhase(ctx context.Context, pod *state.Pod, phase checkpoint.Phase) {
	err := s.opts.Store.Update(ctx, pod.ID, func(r *checkpoint.Record) error {
		r.Phase = phase
		return nil
	})
	if docker.IgnoreNotFound(err) != nil {
		log.G(ctx).WithError(err).WithFields(log.Fields{"podSandboxID": pod.ID,
			"phase": phase}).Warn("cannot save phase in checkpoint")
	}
}

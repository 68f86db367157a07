package sandbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/containerd/log"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/state"
)

// Limits of the recovery. A CNI plugin or an engine that hangs gets less time than the two minutes that a kubelet gives
// StopPodSandbox, which waits for the pod's lock meanwhile.
const (
	recoverTimeout = 30 * time.Second
	recoverLimit   = 8
)

// Recover goes through the pods once after the cache's first sync: a running pod gets back what a crash or a clean-up
// took from it, and then each pod whose set-up was cut short is stopped (its address goes back, the kubelet removes
// it), some at a time and each within recoverTimeout. No pod's failure keeps the others from recovering; the errors are
// joined.
func (s *Service) Recover(ctx context.Context) error {
	ctx = log.WithLogger(ctx, log.L.WithField("component", "sandbox"))
	var errs []error
	var interrupted []*state.Pod
	for _, pod := range s.opts.Cache.Snapshot().Pods() {
		record, err := s.opts.Store.Load(ctx, pod.ID)
		switch {
		case err != nil:
			errs = append(errs, docker.IgnoreNotFound(err))
		case record.Phase == checkpoint.PhaseIntent:
			interrupted = append(interrupted, pod)
		case record.Phase == checkpoint.PhaseReady && pod.Status.Running:
			errs = append(errs, s.repair(ctx, pod))
		}
	}
	return errors.Join(append(errs, s.stopAll(ctx, interrupted))...)
}

// repair is quick: it calls neither plugins nor the engine. A pod that is stopped or removed meanwhile is left alone.
func (s *Service) repair(ctx context.Context, pod *state.Pod) error {
	ctx, cancel := context.WithTimeout(log.WithLogger(ctx, log.G(ctx).WithFields(pod.LogFields())), recoverTimeout)
	defer cancel()
	unlock, err := s.locks.Lock(ctx, pod.ID)
	if err != nil {
		return named(pod, err)
	}
	defer unlock()
	now, err := s.opts.Cache.Snapshot().Pod(pod.ID)
	if err != nil {
		return docker.IgnoreNotFound(err)
	}
	record, err := s.opts.Store.Load(ctx, pod.ID)
	if err != nil {
		return named(pod, docker.IgnoreNotFound(err))
	}
	if record.Phase != checkpoint.PhaseReady || now.Status.Stopping || !now.Status.Running {
		return nil
	}
	return named(pod, errors.Join(s.holderOf(record).repair(ctx, now, record), s.recoverFiles(now)))
}

// stopAll stops pods side by side.
func (s *Service) stopAll(ctx context.Context, pods []*state.Pod) error {
	return inParallel(pods, func(pod *state.Pod) error {
		ctx, cancel := context.WithTimeout(log.WithLogger(ctx, log.G(ctx).WithFields(pod.LogFields())), recoverTimeout)
		defer cancel()
		log.G(ctx).Warn("pod sandbox set-up or stop was interrupted, stopping it")
		return named(pod, s.Stop(ctx, pod.ID))
	})
}

// named adds the pod's name to an error.
func named(pod *state.Pod, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("pod %s: %w", pod.Meta.Name, err)
}

// recoverFiles writes the pod's files for its next containers.
func (s *Service) recoverFiles(pod *state.Pod) error {
	if s.opts.Files.complete(pod.ID) {
		return nil
	}
	if err := s.opts.Files.write(pod.ID, pod.Meta.Config); err != nil {
		return err
	}
	return s.opts.Files.writeHosts(pod.ID, pod.Meta.Config, pod.Status.IPs)
}

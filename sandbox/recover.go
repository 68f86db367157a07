package sandbox

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/sirupsen/logrus"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/netns"
	"github.com/criadapter/criadapter/state"
)

// Recover goes through the pods once after the mirror's first sync: a pod whose
// set-up was cut short is stopped (its address goes back, the kubelet removes
// it), a running one gets back what a crash or a clean-up took from it. One
// pod's trouble does not keep the others from recovering; the errors are
// joined.
func (s *Service) Recover(ctx context.Context) error {
	var errs []error
	for _, pod := range s.opts.Mirror.Snapshot().Pods() {
		record, err := s.opts.Store.Load(pod.ID)
		if err != nil {
			if err := ignoreNotFound(err); err != nil {
				errs = append(errs, err)
			}
			continue
		}
		if err := s.recoverPod(ctx, pod, record); err != nil {
			errs = append(errs, fmt.Errorf("pod %s: %w", pod.Meta.Name, err))
		}
	}
	return errors.Join(errs...)
}

func (s *Service) recoverPod(ctx context.Context, pod *state.Pod, record checkpoint.Record) error {
	if record.Phase == checkpoint.PhaseIntent {
		logrus.WithField("sandbox", pod.Meta.Name).Warn("the set-up or the end of a pod was cut short, stopping it")
		return s.Stop(ctx, pod.ID)
	}
	if !pod.Status.Running || record.Phase != checkpoint.PhaseReady {
		return nil
	}
	return errors.Join(s.recoverNetns(pod, record.NetnsPath), s.recoverFiles(pod))
}

// recoverNetns pins the namespace of a running sandbox again where the pin is
// gone. A pin of another namespace means that somebody started the sandbox a
// second time meanwhile: the pod's addresses are not in its namespace any more.
func (s *Service) recoverNetns(pod *state.Pod, path string) error {
	if path == "" {
		return nil
	}
	handle := netns.Open(path)
	if !handle.Alive() {
		_, err := netns.Pin(pod.Status.PID, filepath.Base(path), netns.PinOptions{Folder: filepath.Dir(path)})
		return err
	}
	same, err := handle.SameAs(pod.Status.PID)
	if err != nil {
		return fmt.Errorf("comparing the pod's network namespace with its pin: %w", err)
	}
	if !same {
		logrus.WithField("sandbox", pod.Meta.Name).Warn("a sandbox was started again and has lost its network, its pod is not ready")
		s.opts.Mirror.UpdatePod(pod.ID, func(st *state.PodStatus) { st.NetworkReady = false })
	}
	return nil
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

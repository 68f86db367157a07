package sandbox

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
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
	found, err := s.look(ctx)
	err = errors.Join(err, s.apply(ctx, found, repair, finish))
	for _, dir := range []string{filepath.Dir(s.netnsPath("")), s.opts.podsDir, s.usersDir()} {
		err = errors.Join(err, sweepProbes(dir))
	}
	return err
}

// look finds what there is of all pods. What is kept outside of the records is listed before those, and they before the
// cache: a pod comes into being in the other order. An error says of which pods not all is known; they are left alone.
func (s *Service) look(ctx context.Context) (map[string]remains, error) {
	found := map[string]remains{}
	attached, err := s.opts.Network.Attached()
	for id, path := range attached {
		// Another runtime may share the cache's directory: its pods have their namespaces elsewhere.
		if path == s.netnsPath(id) {
			found[id] = remains{joined: true}
		}
	}
	errs := []error{err, sweepUnfinished(s.opts.podsDir, s.opts.RootDirectory, s.making.has)}
	for _, id := range s.owned() {
		r := found[id]
		r.owned = !s.making.has(id)
		found[id] = r
	}
	snapshot := s.opts.Cache.Snapshot()
	for _, pod := range snapshot.Pods() {
		r := found[pod.ID]
		r.shown, r.running = true, pod.Status.Running
		found[pod.ID] = r
	}
	for id, r := range found {
		record, err := s.opts.Store.Load(ctx, id)
		r.phase, r.unread = record.Phase, docker.IgnoreNotFound(err) != nil
		if r.unread {
			errs = append(errs, err)
		}
		found[id] = r
	}
	return found, errors.Join(errs...)
}

// owned are the pods that have a directory of this criadapter alone: of their namespaces, or of their files.
func (s *Service) owned() []string {
	ids := s.opts.Files.list()
	for _, record := range ownedPods(s.opts.podsDir, s.opts.RootDirectory) {
		ids = append(ids, record.SandboxID)
	}
	return ids
}

// apply does what is to be done with pods, if it is one of some actions, in the order of these.
func (s *Service) apply(ctx context.Context, found map[string]remains, actions ...action) error {
	type task struct {
		id string
		do action
	}
	var tasks []task
	for _, do := range actions {
		for id, r := range found {
			if r.decide() == do {
				tasks = append(tasks, task{id, do})
			}
		}
	}
	return inParallel(tasks, func(t task) error {
		ctx, cancel := context.WithTimeout(ctx, recoverTimeout)
		defer cancel()
		switch t.do {
		case repair:
			return s.onPod(ctx, t.id, s.repair)
		case finish:
			return s.onPod(ctx, t.id, s.finishStop)
		case release:
			return s.releaseUnknown(ctx, t.id)
		}
		return nil
	})
}

// onPod does something with a pod of the cache, if it is there.
func (s *Service) onPod(ctx context.Context, id string, do func(context.Context, *state.Pod) error) error {
	pod, err := s.opts.Cache.Snapshot().Pod(id)
	if err != nil {
		return docker.IgnoreNotFound(err)
	}
	return named(pod, do(log.WithLogger(ctx, log.G(ctx).WithFields(pod.LogFields())), pod))
}

func (s *Service) finishStop(ctx context.Context, pod *state.Pod) error {
	log.G(ctx).Warn("pod sandbox set-up or stop was interrupted, stopping it")
	return s.Stop(ctx, pod.ID)
}

// repair is quick: it calls neither plugins nor the engine. A pod that is stopped or removed meanwhile is left alone.
func (s *Service) repair(ctx context.Context, pod *state.Pod) error {
	unlock, err := s.locks.Lock(ctx, pod.ID)
	if err != nil {
		return err
	}
	defer unlock()
	now, err := s.opts.Cache.Snapshot().Pod(pod.ID)
	if err != nil {
		return docker.IgnoreNotFound(err)
	}
	record, err := s.opts.Store.Load(ctx, pod.ID)
	if err != nil {
		return docker.IgnoreNotFound(err)
	}
	if record.Phase != checkpoint.PhaseReady || now.Status.Stopping || !now.Status.Running {
		return nil
	}
	return errors.Join(s.holderOf(record).repair(ctx, now, record), s.recoverFiles(now))
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

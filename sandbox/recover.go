package sandbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/containerd/log"
	"golang.org/x/sync/errgroup"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/state"
)

// Limits of the recovery. The recovery holds a pod's lock while a plugin or the engine hangs, and StopPodSandbox waits
// for the lock. recoverTimeout is therefore less than the two minutes that a kubelet gives StopPodSandbox.
const (
	recoverTimeout = 30 * time.Second
	recoverLimit   = 8
)

// Repair goes through the pods once after the cache's first sync, before clients see them. It restores pins and files
// of running pods that a crash or a clean-up removed. It marks a pod whose sandbox was restarted as NOTREADY, although
// the record still says READY. Repair is quick: it calls neither plugins nor the engine. The pods' errors are joined.
func (s *Service) Repair(ctx context.Context) error {
	ctx = log.WithLogger(ctx, log.L.WithField("component", "sandbox"))
	return inParallel(ctx, s.opts.Cache.Snapshot().Pods(), func(ctx context.Context, pod *state.Pod) error {
		return s.onPod(ctx, pod.ID, s.repair)
	})
}

// Recover stops pods whose set-up or stop was interrupted. Call it once after Repair. Stopping releases the pods'
// addresses, and the kubelet removes the pods. Pods are handled recoverLimit at a time, each within recoverTimeout. The
// pods' errors are joined.
func (s *Service) Recover(ctx context.Context) error {
	ctx = log.WithLogger(ctx, log.L.WithField("component", "sandbox"))
	found, err := s.look(ctx)
	err = errors.Join(err, apply(ctx, found, actFinish, func(ctx context.Context, id string) error {
		return s.onPod(ctx, id, s.finishStop)
	}))
	for _, dir := range []string{s.network.netnsDir(), s.opts.podsDir, s.users.dir()} {
		err = errors.Join(err, sweepProbes(dir))
	}
	return err
}

// look finds all pods, including pods of which only an attachment or a directory is left. It lists the network and the
// directories first, then the cache, and reads the records last. A pod that is being set up has a record before it has
// an address. Its record is complete before it is in the cache. Pods whose record cannot be read are left alone, and
// the error names them.
func (s *Service) look(ctx context.Context) (map[string]presence, error) {
	found := map[string]presence{}
	attached, err := s.opts.Network.Attached()
	for id, path := range attached {
		// Another runtime may share the directory of the CNI cache. Its pods have their namespaces at other paths.
		if path == s.network.netnsPath(id) {
			found[id] = presence{joined: true}
		}
	}
	errs := []error{err, sweepUnfinished(s.opts.podsDir, s.opts.RootDirectory, s.isSettingUp)}
	owned, err := s.owned()
	errs = append(errs, err)
	for _, id := range owned {
		r := found[id]
		r.owned = !s.isSettingUp(id)
		found[id] = r
	}
	snapshot := s.opts.Cache.Snapshot()
	for _, pod := range snapshot.Pods() {
		r := found[pod.ID]
		r.shown = true
		found[pod.ID] = r
	}
	for id, r := range found {
		record, err := s.opts.Store.Load(ctx, id)
		r.phase, r.unreadable = record.Phase, docker.IgnoreNotFound(err) != nil
		if r.unreadable {
			errs = append(errs, err)
		}
		found[id] = r
	}
	return found, errors.Join(errs...)
}

// owned returns the pods that have a directory of this criadapter, for their namespaces or their files. With an error,
// the pods that have only files are missing.
func (s *Service) owned() ([]string, error) {
	ids, err := s.opts.Files.list()
	for _, record := range ownedPods(s.opts.podsDir, s.opts.RootDirectory) {
		ids = append(ids, record.SandboxID)
	}
	return ids, err
}

// apply calls act for the pods that need the action.
func apply(
	ctx context.Context, found map[string]presence, needed action, act func(context.Context, string) error,
) error {
	var ids []string
	for id, r := range found {
		if r.decide() == needed {
			ids = append(ids, id)
		}
	}
	return inParallel(ctx, ids, act)
}

// inParallel calls act for each item, recoverLimit at a time and each within recoverTimeout. It joins the errors.
func inParallel[T any](ctx context.Context, list []T, act func(context.Context, T) error) error {
	errs := make([]error, len(list))
	var group errgroup.Group
	group.SetLimit(recoverLimit)
	for i, item := range list {
		group.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, recoverTimeout)
			defer cancel()
			errs[i] = act(ctx, item)
			return nil
		})
	}
	_ = group.Wait()
	return errors.Join(errs...)
}

// onPod calls act for a pod, if the cache has it.
func (s *Service) onPod(ctx context.Context, id string, act func(context.Context, *state.Pod) error) error {
	pod, err := s.opts.Cache.Snapshot().Pod(id)
	if err != nil {
		return docker.IgnoreNotFound(err)
	}
	if err := act(log.WithLogger(ctx, log.G(ctx).WithFields(pod.LogFields())), pod); err != nil {
		return fmt.Errorf("pod %s: %w", pod.Meta.Name, err)
	}
	return nil
}

func (s *Service) finishStop(ctx context.Context, pod *state.Pod) error {
	log.G(ctx).Warn("pod sandbox set-up or stop was interrupted, stopping it")
	return s.Stop(ctx, pod.ID)
}

// repair is Repair for one pod. A pod that is stopped or removed meanwhile is left alone.
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
		return nil // Recover returns the error of an unreadable record
	}
	if record.Phase != checkpoint.PhaseReady || now.Status.Stopping || !now.Status.Running {
		return nil
	}
	return errors.Join(s.holderOf(record).repair(ctx, now, record),
		s.opts.Files.write(now.ID, now.Meta.Config, now.Status.IPs))
}

package podsync

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/criadapter/criadapter/kubelet/allocation"
	"github.com/criadapter/criadapter/kubelet/cgroup"
	"github.com/criadapter/criadapter/kubelet/events"
	"github.com/criadapter/criadapter/kubelet/kuberuntime"
	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/kubelet/pleg"
	"github.com/criadapter/criadapter/kubelet/podworkers"
	"github.com/criadapter/criadapter/kubelet/prober"
	"github.com/criadapter/criadapter/kubelet/status"
	"github.com/criadapter/criadapter/kubelet/volumemanager"
)

// Options configure a Syncer. All are required.
type Options struct {
	// Cache has each pod's status in the runtime.
	Cache *pleg.Cache
	// RuntimeErr returns the reason why the runtime cannot be used, or nil.
	RuntimeErr func() error
	// NetworkErr returns the reason why the pod network is not ready, or nil. Pods in the host's network do not need
	// the pod network.
	NetworkErr func() error
	Runtime    *kuberuntime.Manager
	Volumes    *volumemanager.Manager
	Cgroups    *cgroup.Manager
	Prober     *prober.Manager
	Status     *status.Manager
	Allocation *allocation.Manager
	Events     *events.Recorder
	// RuntimeName is the scheme of container ids in statuses. HostIPs returns the node's addresses, the primary one
	// first.
	RuntimeName string
	HostIPs     func() []string
}

// Syncer is a podworkers.PodSyncer. Calls for different pods may run at the same time.
type Syncer struct {
	opts Options

	mu sync.Mutex
	// forgotten are the forgotten pods that the runtime may still have.
	forgotten map[types.UID]bool
}

// New makes a Syncer.
func New(opts Options) *Syncer { return &Syncer{opts: opts, forgotten: map[types.UID]bool{}} }

// SyncPod makes the pod's cgroup and volumes, and syncs its containers.
func (s *Syncer) SyncPod(ctx context.Context, pod *v1.Pod) (ended bool, again time.Duration, err error) {
	observed, err := s.observe(ctx, pod.UID)
	if err != nil {
		return false, 0, s.unknown(ctx, pod, err)
	}
	pod = s.opts.Allocation.Allocated(pod)
	s.opts.Prober.Update(pod, observed, false)
	published := s.publish(pod, observed, syncing, nil)
	if model.Terminal(published.Phase) || model.IsFailure(published.Reason) {
		return true, 0, nil // an earlier kubelet process may have begun to end the pod
	}
	left, limited := timeLeft(pod, published)
	if limited && left <= 0 {
		s.exceed(pod, published)
		return true, 0, nil
	}
	if err := s.opts.RuntimeErr(); err != nil {
		return false, 0, err
	}
	if err := s.opts.NetworkErr(); err != nil && !pod.Spec.HostNetwork {
		err = fmt.Errorf("network is not ready: %w", err)
		s.opts.Events.Warn(pod, "NetworkNotReady", err.Error())
		return false, 0, err
	}
	again, err = s.syncContainers(ctx, pod, observed)
	if limited && (again == 0 || left < again) {
		again = left
	}
	return false, again, err
}

// observe returns the pod's status in the runtime. If a pod with this UID was forgotten, observe first removes its
// containers and sandboxes. Otherwise a pod with the restart policy Never would count as ended before it ran.
func (s *Syncer) observe(ctx context.Context, uid types.UID) (*model.PodStatus, error) {
	observed, err := s.opts.Cache.PodStatus(ctx, uid)
	if err != nil || !s.isForgotten(uid) {
		return observed, err
	}
	if err := s.opts.Runtime.Discard(ctx, observed); err != nil {
		return nil, fmt.Errorf("discard the ended pod with this UID: %w", err)
	}
	s.mu.Lock()
	delete(s.forgotten, uid)
	s.mu.Unlock()
	return s.opts.Cache.Refresh(ctx, uid)
}

// unknown records why the pod's status in the runtime is unknown, and returns the error. While the runtime cannot be
// used, the node's condition has the reason.
func (s *Syncer) unknown(ctx context.Context, pod *v1.Pod, err error) error {
	if s.opts.RuntimeErr() == nil {
		s.opts.Events.WarnFailure(ctx, pod, "", "FailedSync", fmt.Sprintf("error determining status: %v", err))
	}
	return err
}

func (s *Syncer) isForgotten(uid types.UID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.forgotten[uid]
}

// syncContainers makes the cgroup and the volumes, calls the runtime manager, and publishes the result.
func (s *Syncer) syncContainers(
	ctx context.Context, pod *v1.Pod, observed *model.PodStatus,
) (again time.Duration, err error) {
	during := allocation.Meanwhile(pod, s.actuated(pod, observed))
	if err := s.ensureCgroup(ctx, during); err != nil {
		return 0, err
	}
	// A started pod keeps running with stale volumes: without the API server its containers must still restart.
	mountErr := s.mount(ctx, pod)
	if mountErr != nil && (!errors.As(mountErr, new(*volumemanager.StaleError)) || observed.ReadySandbox() == nil) {
		return 0, mountErr
	}
	probed := s.opts.Prober.Results(pod, observed)
	result, err := s.opts.Runtime.SyncPod(ctx, pod, observed,
		kuberuntime.Probes{LivenessFailed: probed.LivenessFailed, Started: probed.Started})
	if during != pod && err == nil {
		// The containers have their new limits, so the pod's cgroup follows. After an error some containers may still
		// have their old limits, so the cgroup keeps room for them.
		err = s.ensureCgroup(ctx, pod)
	}
	fresh, refreshErr := observed, error(nil)
	if !result.Idle {
		fresh, refreshErr = s.opts.Cache.Refresh(ctx, pod.UID)
	}
	if refreshErr == nil {
		s.opts.Prober.Update(pod, fresh, false)
		s.publish(pod, fresh, syncing, &result)
	}
	return result.Again, errors.Join(err, mountErr, refreshErr)
}

// actuated returns the actuated resources of the pod's running containers.
func (s *Syncer) actuated(pod *v1.Pod, observed *model.PodStatus) func(*v1.Container) (v1.ResourceRequirements, bool) {
	return func(c *v1.Container) (v1.ResourceRequirements, bool) {
		container := observed.Container(c.Name)
		if container == nil || container.State != model.StateRunning {
			return v1.ResourceRequirements{}, false
		}
		return s.opts.Allocation.Actuated(pod.UID, c, container)
	}
}

func (s *Syncer) ensureCgroup(ctx context.Context, pod *v1.Pod) error {
	if _, err := s.opts.Cgroups.Ensure(ctx, pod); err != nil {
		s.opts.Events.WarnFailure(ctx, pod, "", "FailedCreatePodContainer",
			fmt.Sprintf("unable to ensure pod container exists: %v", err))
		return err
	}
	return nil
}

// mount makes the volumes and brings them up to date.
func (s *Syncer) mount(ctx context.Context, pod *v1.Pod) error {
	err := s.opts.Volumes.Mount(ctx, pod)
	if err == nil {
		return nil
	}
	s.opts.Events.WarnFailure(ctx, pod, "", "FailedMount", err.Error())
	return fmt.Errorf("volumes: %w", err)
}

// timeLeft is the rest of the pod's activeDeadlineSeconds.
func timeLeft(pod *v1.Pod, published v1.PodStatus) (left time.Duration, limited bool) {
	if pod.Spec.ActiveDeadlineSeconds == nil || published.StartTime == nil {
		return 0, false
	}
	return time.Until(published.StartTime.Add(time.Duration(*pod.Spec.ActiveDeadlineSeconds) * time.Second)), true
}

// exceed sets the reason of a pod that ran too long. The pod becomes Failed when its containers have ended.
func (s *Syncer) exceed(pod *v1.Pod, published v1.PodStatus) {
	published.Reason, published.Message = model.ReasonDeadlineExceeded, "Pod was active on the node longer than "+
		"the specified deadline"
	s.opts.Status.Set(pod, published)
	s.opts.Events.Record(events.Event{Pod: pod, Reason: published.Reason, Message: published.Message})
}

// fail sets the reason for which the node ends a pod, unless the pod has completed.
func (s *Syncer) fail(pod *v1.Pod, why *model.Failure) {
	if shown := s.opts.Status.Status(pod); why != nil && !model.Terminal(shown.Phase) {
		s.opts.Status.Set(pod, status.Failing(shown, *why, time.Now()))
	}
}

// minGrace is the shortest grace period of a pod that ends, in seconds, as in the kubelet. Therefore preStop hooks also
// run in pods with a grace period of zero.
const minGrace = 1

// SyncTerminatingPod ends the pod's containers and stops its sandboxes.
func (s *Syncer) SyncTerminatingPod(ctx context.Context, pod *v1.Pod, t podworkers.Termination) error {
	observed, err := s.opts.Cache.PodStatus(ctx, pod.UID)
	if err != nil {
		return s.unknown(ctx, pod, err)
	}
	pod = s.opts.Allocation.Allocated(pod)
	s.fail(pod, t.Failure)
	s.opts.Prober.Update(pod, observed, true)
	s.publish(pod, observed, stopping, nil)
	killErr := s.opts.Runtime.KillPod(ctx, pod, observed,
		kuberuntime.KillOptions{Reason: t.Reason, Grace: t.Grace, MinGrace: minGrace})
	if killErr != nil {
		s.opts.Events.WarnFailure(ctx, pod, "", "FailedKillPod", fmt.Sprintf("error killing pod: %v", killErr))
	}
	observed, err = s.opts.Cache.Refresh(ctx, pod.UID)
	if err := errors.Join(killErr, err); err != nil {
		return err
	}
	if observed.Running() {
		return fmt.Errorf("containers of %s still run, or their state is unknown; they are stopped again",
			model.FullName(pod))
	}
	s.opts.Prober.Update(pod, observed, true)
	s.publish(pod, observed, stopped, nil)
	return nil
}

// SyncTerminatedPod removes the pod's volumes, probes and cgroup.
func (s *Syncer) SyncTerminatedPod(ctx context.Context, pod *v1.Pod) error {
	if err := s.opts.Volumes.Unmount(ctx, pod.UID); err != nil {
		return err
	}
	s.opts.Prober.Forget(pod.UID)
	if err := s.opts.Cgroups.Remove(ctx, pod.UID); err != nil {
		return err
	}
	s.opts.Runtime.Forget(pod)
	s.opts.Allocation.Forget(pod.UID)
	return nil
}

// Forget drops the status of a pod that no source names any more. If the same manifest comes back, its pod has the same
// UID. The old terminal phase would keep the pod from running. So would its old containers, which observe removes.
func (s *Syncer) Forget(uid types.UID) {
	s.opts.Status.Forget(uid)
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.forgotten, func(old types.UID, _ bool) bool { return !s.opts.Cache.Has(old) })
	s.forgotten[uid] = true
}

// stage says how far the end of a pod has come. Only the status of a stopped pod is final.
type stage int

const (
	syncing stage = iota
	stopping
	stopped
)

// publish generates the pod's status and keeps it. Result is the result of a sync, nil before the sync.
func (s *Syncer) publish(pod *v1.Pod, observed *model.PodStatus, at stage, result *kuberuntime.Result) v1.PodStatus {
	probed := s.opts.Prober.Results(pod, observed)
	var waiting map[string]*model.ReasonError
	resize := status.Resize{
		Pending: s.opts.Allocation.Pending(pod.UID), Unknown: result == nil,
		Actuated: func(c *v1.Container, observed *model.ContainerStatus) (v1.ResourceRequirements, bool) {
			return s.opts.Allocation.Actuated(pod.UID, c, observed)
		},
	}
	if result != nil {
		waiting, resize.Err = result.Waiting, result.ResizeErr
	}
	made := status.Generate(status.Input{
		Pod: pod, Runtime: observed, RuntimeName: s.opts.RuntimeName, Old: s.opts.Status.Status(pod), Waiting: waiting,
		Ready: probed.Ready, Started: probed.Started, Resize: resize, HostIPs: s.opts.HostIPs(),
		Ending: at != syncing, Stopping: at == stopping, Now: time.Now(),
	})
	if probed.Assumed && model.Restored(pod) {
		// The API server may have a later status than the checkpoint.
		s.opts.Status.Hold(pod, made)
		return made
	}
	s.opts.Status.Set(pod, made)
	return made
}

package kubelet

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/criadapter/criadapter/kubelet/container"
	"github.com/criadapter/criadapter/kubelet/events"
	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/kubelet/podworkers"
	"github.com/criadapter/criadapter/kubelet/prober"
	"github.com/criadapter/criadapter/kubelet/status"
	"github.com/criadapter/criadapter/kubelet/volume"
)

// Sync is podworkers.Steps: volumes, then whatever containers need.
func (k *Kubelet) Sync(ctx context.Context, pod *v1.Pod, after time.Time) (ended bool, again time.Duration, err error) {
	seen, err := k.cache.Get(ctx, pod.UID, after)
	if err != nil {
		return false, 0, err
	}
	published := k.publish(pod, seen, false)
	if model.Terminal(published.Phase) {
		return true, 0, nil
	}
	left, limited := timeLeft(pod, published)
	if limited && left <= 0 {
		k.exceed(pod, published)
		return true, 0, nil
	}
	if err := k.runtimeErr(); err != nil {
		return false, 0, err
	}
	if _, err := k.cgroups.Ensure(ctx, pod); err != nil {
		k.events.Record(events.Event{Pod: pod, Warning: true, Reason: "FailedToCreatePodCgroup", Message: err.Error()})
		return false, 0, err
	}
	mountErr := k.mount(ctx, pod)
	if mountErr != nil && (!errors.As(mountErr, new(*volume.StaleError)) || seen.ReadySandbox() == nil) {
		return false, 0, mountErr
	}
	probed := k.prober.Results(pod, seen)
	result, err := k.actor.Sync(ctx, pod, seen, container.Probes{LivenessFailed: probed.LivenessFailed, Started: probed.Started})
	k.setWaiting(pod.UID, result.Waiting)
	if fresh, refreshErr := k.cache.Refresh(ctx, pod.UID); refreshErr == nil {
		k.publish(pod, fresh, false)
	}
	if limited && (result.Again == 0 || left < result.Again) {
		result.Again = left
	}
	return false, result.Again, errors.Join(err, mountErr)
}

// mount makes the volumes and brings them up to date. A pod that has begun goes on with those that it has: a server that is
// away, or a config map that somebody removed, must not keep its containers from starting again.
func (k *Kubelet) mount(ctx context.Context, pod *v1.Pod) error {
	err := k.volumes.Mount(ctx, pod)
	if err == nil {
		return nil
	}
	k.events.Record(events.Event{Pod: pod, Warning: true, Reason: "FailedMount", Message: err.Error()})
	return fmt.Errorf("volumes: %w", err)
}

// timeLeft is how long a pod with activeDeadlineSeconds may run yet.
func timeLeft(pod *v1.Pod, s v1.PodStatus) (left time.Duration, limited bool) {
	if pod.Spec.ActiveDeadlineSeconds == nil || s.StartTime == nil {
		return 0, false
	}
	return time.Until(s.StartTime.Add(time.Duration(*pod.Spec.ActiveDeadlineSeconds) * time.Second)), true
}

// exceed notes that a pod ran too long; it fails when its containers have ended.
func (k *Kubelet) exceed(pod *v1.Pod, s v1.PodStatus) {
	s.Reason, s.Message = status.ReasonDeadlineExceeded, "Pod was active on the node longer than the specified deadline"
	k.status.Set(pod, s)
	k.events.Record(events.Event{Pod: pod, Reason: s.Reason, Message: s.Message})
}

// Terminate is podworkers.Steps.
func (k *Kubelet) Terminate(ctx context.Context, pod *v1.Pod, t podworkers.Termination, after time.Time) error {
	seen, err := k.cache.Get(ctx, pod.UID, after)
	if err != nil {
		return err
	}
	k.publish(pod, seen, true)
	if err := k.actor.Kill(ctx, pod, seen, container.KillOptions{Reason: t.Reason, Grace: t.Grace}); err != nil {
		return err
	}
	seen, err = k.cache.Refresh(ctx, pod.UID)
	if err != nil {
		return err
	}
	if seen.Running() {
		return fmt.Errorf("containers of %s still run", model.FullName(pod))
	}
	k.publish(pod, seen, true)
	return nil
}

// Terminated is podworkers.Steps.
func (k *Kubelet) Terminated(ctx context.Context, pod *v1.Pod) error {
	if err := k.volumes.Unmount(ctx, pod.UID); err != nil {
		return err
	}
	k.prober.Forget(pod.UID)
	if err := k.cgroups.Remove(ctx, pod.UID); err != nil {
		return err
	}
	k.actor.Forget(pod)
	k.setWaiting(pod.UID, nil)
	return nil
}

// publish has the probes of what runs made, makes the pod's status and keeps it.
func (k *Kubelet) publish(pod *v1.Pod, seen *model.PodStatus, ending bool) v1.PodStatus {
	k.prober.Update(pod, seen, ending)
	probed := k.prober.Results(pod, seen)
	made := status.Generate(status.Input{
		Pod: pod, Runtime: seen, RuntimeName: k.runtime.Name, Old: k.status.Status(pod), Waiting: k.getWaiting(pod.UID),
		Ready: probed.Ready, Started: probed.Started, HostIPs: k.opts.NodeIPs, Ending: ending, Now: time.Now(),
	})
	k.status.Set(pod, made)
	return made
}

func (k *Kubelet) setWaiting(uid types.UID, waiting map[string]*model.ReasonError) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(waiting) == 0 {
		delete(k.waiting, uid)
		return
	}
	k.waiting[uid] = waiting
}

func (k *Kubelet) getWaiting(uid types.UID) map[string]*model.ReasonError {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.waiting[uid]
}

// unhealthy is told of each probe that failed.
func (k *Kubelet) unhealthy(pod *v1.Pod, name string, probe prober.Type, why string) {
	k.events.Record(events.Event{
		Pod: pod, Container: name, Warning: true, Reason: "Unhealthy", Message: fmt.Sprintf("%s probe failed: %s", probe, why),
	})
}

package kuberuntime

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/kubelet/model"
)

// minimalGrace is what a container gets at least, in seconds, also after its preStop hook took all of its time: SIGKILL
// alone loses data. It is the kubelet's figure.
const minimalGrace = 2

// KillOptions say how a pod is killed.
type KillOptions struct {
	// Reason becomes part of the events.
	Reason string
	// Grace replaces the pod's own termination grace period, in seconds.
	Grace *int64
}

// KillPod ends all running containers of a pod and stops its sandboxes. All preStop hooks run at the same time, and
// then the containers stop; sidecars stop after the others, the last started first. The pod may be one that is rebuilt
// from the runtime's view (see model.PodStatus): then labels and annotations say what is known. It may be repeated.
func (m *Manager) KillPod(ctx context.Context, pod *v1.Pod, status *model.PodStatus, opts KillOptions) error {
	var kills []containerKill
	for _, container := range status.Containers {
		if container.State != model.StateRunning && container.State != model.StateUnknown {
			continue
		}
		spec, _ := model.FindContainer(&pod.Spec, container.Name)
		kills = append(kills, containerKill{Container: container, Spec: spec, Reason: "Killing", Message: opts.Reason})
	}
	// Stopping a sandbox ends what is left in it, so one container that cannot be stopped does not keep the pod's
	// address.
	errs := []error{m.killInOrder(ctx, pod, kills, opts.Grace)}
	if ctx.Err() != nil {
		return errors.Join(errs...)
	}
	for _, sandbox := range status.Sandboxes {
		if err := m.opts.Runtime.StopPodSandbox(ctx, sandbox.ID); err != nil {
			errs = append(errs, fmt.Errorf("stop sandbox %s: %w", sandbox.ID, err))
		}
	}
	return errors.Join(errs...)
}

// killInOrder ends all containers at once, but stops sidecars only when those have ended that started after them.
func (m *Manager) killInOrder(ctx context.Context, pod *v1.Pod, kills []containerKill, grace *int64) error {
	order := newKillOrder(pod, kills)
	return each(kills, func(k containerKill) error {
		defer order.ended(k.Container.Name)
		return m.killOne(ctx, pod, k, grace, order)
	})
}

// killSome ends containers of a pod that lives on.
func (m *Manager) killSome(ctx context.Context, pod *v1.Pod, kills []containerKill) error {
	return each(kills, func(k containerKill) error { return m.killOne(ctx, pod, k, nil, nil) })
}

// each calls act for all kills at the same time and waits.
func each(kills []containerKill, act func(containerKill) error) error {
	errs := make([]error, len(kills))
	var group sync.WaitGroup
	for i, k := range kills {
		group.Go(func() { errs[i] = act(k) })
	}
	group.Wait()
	return errors.Join(errs...)
}

// killOne runs the preStop hook, waits for the container's turn unless order is nil, and stops the container. All three
// share the grace period, so a hook runs at once whatever the order is.
func (m *Manager) killOne(ctx context.Context, pod *v1.Pod, k containerKill, grace *int64, order *killOrder) error {
	name := k.Container.Name
	period := time.Duration(containerGrace(pod, k, grace)) * time.Second
	deadline := time.Now().Add(period)
	text := "Stopping container " + name
	if k.Message != "" {
		text += ": " + k.Message
	}
	m.record(pod, name, false)(k.Reason, text)
	if hook := preStopHook(k); hook != nil && period > 0 {
		endHook := m.preStop(ctx, pod, k, hook, period)
		defer endHook()
	}
	if order != nil {
		order.wait(ctx, name, deadline)
	}
	seconds := max(minimalGrace, int64(math.Ceil(time.Until(deadline).Seconds())))
	if err := m.opts.Runtime.StopContainer(ctx, k.Container.ID, seconds); err != nil {
		return fmt.Errorf("stop container %s: %w", name, err)
	}
	return nil
}

// podGrace is the time that a pod gets to end, in seconds.
func podGrace(pod *v1.Pod, override *int64) int64 {
	switch {
	case override != nil:
		return *override
	case pod.DeletionGracePeriodSeconds != nil:
		return *pod.DeletionGracePeriodSeconds
	case pod.Spec.TerminationGracePeriodSeconds != nil:
		return *pod.Spec.TerminationGracePeriodSeconds
	default:
		return v1.DefaultTerminationGracePeriodSeconds
	}
}

// containerGrace is the time that a container gets: that of its pod, or what the failed probe says, or what an earlier
// kubelet wrote down where the specification is gone.
func containerGrace(pod *v1.Pod, k containerKill, override *int64) int64 {
	if override != nil {
		return *override
	}
	if k.ProbeGrace != nil {
		return *k.ProbeGrace
	}
	if k.Spec == nil && pod.Spec.TerminationGracePeriodSeconds == nil {
		if seconds, err := strconv.ParseInt(k.Container.Annotations[model.AnnotationPodTerminationGrace], 10, 64); err == nil {
			return seconds
		}
	}
	return podGrace(pod, nil)
}

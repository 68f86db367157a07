package kuberuntime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	crierrors "k8s.io/cri-api/pkg/errors"

	"github.com/criadapter/criadapter/kubelet/cri"
	"github.com/criadapter/criadapter/kubelet/model"
)

// minimalGrace is the shortest time in seconds between SIGTERM and SIGKILL, even if the preStop hook took all of the
// grace period. The kubelet has the same value.
const minimalGrace = 2

// KillOptions are options of KillPod.
type KillOptions struct {
	// Reason becomes part of the containers' events.
	Reason string
	// Grace replaces the pod's own termination grace period, in seconds.
	Grace *int64
	// MinGrace is the shortest grace period in seconds. Without any grace period, preStop hooks do not run.
	MinGrace int64
}

// KillPod stops all running containers of a pod, and then its sandboxes. All preStop hooks run at the same time.
// Sidecars stop after the other containers, the last started first. A pod that only the runtime lists has no spec. Its
// hooks and grace period come from the containers' annotations. A missing container or sandbox is no error. KillPod may
// be repeated.
func (m *Manager) KillPod(ctx context.Context, pod *v1.Pod, status *model.PodStatus, opts KillOptions) error {
	var kills []containerKill
	for _, container := range status.Containers {
		if container.State != model.StateRunning && container.State != model.StateUnknown {
			continue
		}
		spec, _ := model.FindContainer(&pod.Spec, container.Name)
		kills = append(kills, containerKill{Container: container, Spec: spec,
			Message: stopping(container.Name, opts.Reason)})
	}
	// Sandboxes stop even if a container cannot be stopped. The end of a sandbox ends its containers and frees the
	// pod's address.
	errs := []error{m.killInOrder(ctx, pod, kills, opts)}
	if ctx.Err() != nil {
		return errors.Join(errs...)
	}
	for _, sandbox := range status.Sandboxes {
		errs = append(errs, stopSandbox(ctx, m.opts.Runtime, sandbox.ID))
	}
	return errors.Join(errs...)
}

// stopSandbox stops a sandbox. A sandbox that is gone counts as stopped.
func stopSandbox(ctx context.Context, runtime *cri.Runtime, id string) error {
	if err := runtime.StopPodSandbox(ctx, id); err != nil && !crierrors.IsNotFound(err) {
		return fmt.Errorf("stop sandbox %s: %w", id, err)
	}
	return nil
}

// killInOrder stops all containers at the same time, but a sidecar only after the containers that started after it.
func (m *Manager) killInOrder(ctx context.Context, pod *v1.Pod, kills []containerKill, opts KillOptions) error {
	order := newKillOrder(pod, kills)
	return each(kills, func(k containerKill) error {
		defer order.ended(k.Container.Name)
		return m.killOne(ctx, pod, k, opts, order)
	})
}

// killSome stops some containers of a pod at the same time. The pod's other containers stay.
func (m *Manager) killSome(ctx context.Context, pod *v1.Pod, kills []containerKill) error {
	return each(kills, func(k containerKill) error { return m.killOne(ctx, pod, k, KillOptions{}, nil) })
}

// each calls act for all kills at the same time, and waits for all calls.
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
// share the grace period, so the hook does not wait for the turn.
func (m *Manager) killOne(ctx context.Context, pod *v1.Pod, k containerKill, opts KillOptions, order *killOrder) error {
	name := k.Container.Name
	period := time.Duration(max(opts.MinGrace, containerGrace(pod, k, opts.Grace))) * time.Second
	deadline := time.Now().Add(period)
	m.record(pod, name, false)("Killing", cmp.Or(k.Message, stopping(name, "")))
	if hook := preStopHook(k); hook != nil && period > 0 {
		endHook := m.preStop(ctx, pod, k, hook, period)
		defer endHook()
	}
	if order != nil {
		order.wait(ctx, name, deadline)
	}
	seconds := max(minimalGrace, int64(math.Ceil(time.Until(deadline).Seconds())))
	if err := m.opts.Runtime.StopContainer(ctx, k.Container.ID, seconds); err != nil && !crierrors.IsNotFound(err) {
		return fmt.Errorf("stop container %s: %w", name, err)
	}
	return nil
}

// stopping returns the event's text for a container that stops. Why may be empty.
func stopping(name, why string) string {
	if why != "" {
		why = ": " + why
	}
	return "Stopping container " + name + why
}

// podGrace returns the pod's grace period in seconds.
func podGrace(pod *v1.Pod, override *int64) int64 {
	switch {
	case override != nil:
		return *override
	case pod.DeletionGracePeriodSeconds != nil:
		return *pod.DeletionGracePeriodSeconds
	case pod.Spec.TerminationGracePeriodSeconds != nil:
		return notNegative(*pod.Spec.TerminationGracePeriodSeconds)
	default:
		return v1.DefaultTerminationGracePeriodSeconds
	}
}

// notNegative returns a grace period, with one second for a negative one, as in the API server.
func notNegative(seconds int64) int64 {
	if seconds < 0 {
		return 1
	}
	return seconds
}

// containerGrace returns the container's grace period in seconds: the override, else the failed probe's, else the
// pod's. Without a specification, the pod's grace period comes from an annotation of the container.
func containerGrace(pod *v1.Pod, k containerKill, override *int64) int64 {
	if override != nil {
		return *override
	}
	if k.ProbeGrace != nil {
		return *k.ProbeGrace
	}
	if k.Spec == nil && pod.Spec.TerminationGracePeriodSeconds == nil {
		if seconds, err := strconv.ParseInt(k.Container.Annotations[model.AnnotationPodTerminationGrace], 10,
			64); err == nil {
			return notNegative(seconds)
		}
	}
	return podGrace(pod, nil)
}

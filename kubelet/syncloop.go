package kubelet

import (
	"context"
	"time"

	"github.com/sirupsen/logrus"
	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/kubelet/admission"
	"github.com/criadapter/criadapter/kubelet/config"
	"github.com/criadapter/criadapter/kubelet/events"
	"github.com/criadapter/criadapter/kubelet/manifest"
	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/kubelet/pleg"
	"github.com/criadapter/criadapter/kubelet/podworkers"
	"github.com/criadapter/criadapter/kubelet/status"
)

const (
	// firstPause and lastPause bound how long the loop rests while the runtime is not ready.
	firstPause = 100 * time.Millisecond
	lastPause  = 5 * time.Second
)

// syncLoop takes one thing after the other from all that can ask for work, and hands it to the pods' workers.
func (k *Kubelet) syncLoop(ctx context.Context) {
	tick := time.NewTicker(k.opts.SyncTick)
	defer tick.Stop()
	housekeeping := time.NewTicker(k.opts.Housekeeping)
	defer housekeeping.Stop()
	var served <-chan struct{} // changed objects of the API server; without one never
	if k.server != nil {
		served = k.server.objects.Changed()
	}
	pause := firstPause
	for ctx.Err() == nil {
		if err := k.runtimeErr(); err != nil {
			logrus.WithError(err).Debug("Pods are left alone while the runtime is not ready")
			select {
			case <-ctx.Done():
			case <-time.After(pause):
			}
			pause = min(2*pause, lastPause)
			continue
		}
		pause = firstPause
		select {
		case <-ctx.Done():
		case update := <-k.mux.Updates():
			k.handle(ctx, update)
		case event := <-k.pleg.Events():
			k.handleEvent(event)
		case uid := <-k.prober.Changed():
			k.workers.Wake(uid)
		case <-k.objects.Changed():
			k.workers.WakeAll()
		case <-served:
			k.workers.WakeAll()
		case now := <-tick.C:
			k.workers.WakeDue(now)
		case <-housekeeping.C:
			k.housekeeping(ctx)
		}
	}
}

func (k *Kubelet) runtimeErr() error {
	if err := k.ready.Err(); err != nil {
		return err
	}
	return k.pleg.Err()
}

// handle takes a change of what is wanted.
func (k *Kubelet) handle(ctx context.Context, update config.Update) {
	if update.Op == config.Add {
		k.inTurn(update.Pods)
	}
	for _, pod := range update.Pods {
		logrus.WithFields(logrus.Fields{"op": update.Op, "source": update.Source, "pod": model.FullName(pod), "uid": pod.UID}).Info("A source speaks")
		if k.server != nil {
			k.server.saw(update, pod)
		}
		k.dispatch(ctx, update.Op, pod)
	}
	k.followMirrors()
}

// dispatch tells a pod's worker what is wanted of the pod. A pod that was rejected can only go.
func (k *Kubelet) dispatch(ctx context.Context, op config.Op, pod *v1.Pod) {
	if k.rejected.has(pod.UID) && op != config.Delete && op != config.Remove {
		return
	}
	switch op {
	case config.Add:
		if k.admit(ctx, pod) {
			k.update(pod)
		}
	case config.Change:
		if err := manifest.Validate(pod); err != nil {
			k.events.Record(events.Event{Pod: pod, Warning: true, Reason: admission.ReasonUnsupported, Message: err.Error()})
		}
		k.update(pod)
	case config.Remove:
		k.workers.Terminate(pod, podworkers.Termination{Reason: "its source no longer names the pod", Gone: true})
	case config.Delete:
		k.workers.Terminate(pod, podworkers.Termination{Reason: "the pod is deleted", Grace: pod.DeletionGracePeriodSeconds})
	case config.Reconcile:
		k.workers.Refresh(pod)
		if len(pod.Spec.ReadinessGates) > 0 {
			k.workers.Wake(pod.UID) // a condition of somebody else's may make it ready
		}
	}
}

// update has a pod worked on that the node has taken.
func (k *Kubelet) update(pod *v1.Pod) {
	k.announce(pod)
	k.track(pod)
	k.workers.Update(pod)
}

// announce shows a pod that has not been worked on yet: it may wait for its name.
func (k *Kubelet) announce(pod *v1.Pod) {
	if k.cache.Peek(pod.UID) == nil {
		k.status.Set(pod, status.Generate(status.Input{
			Pod: pod, Runtime: &model.PodStatus{UID: pod.UID}, Old: k.status.Status(pod), HostIPs: k.opts.NodeIPs, Now: time.Now(),
		}))
	}
}

// handleEvent has a pod looked at to which something happened. A removed container changes nothing that a pod asks for.
func (k *Kubelet) handleEvent(event pleg.Event) {
	logrus.WithFields(logrus.Fields{"uid": event.UID, "event": event.Kind, "id": event.ID}).Debug("The runtime's state changed")
	if event.Kind != pleg.Removed {
		k.workers.Wake(event.UID)
	}
}

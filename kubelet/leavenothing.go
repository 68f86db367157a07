package kubelet

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/kubelet/kuberuntime"
	"github.com/criadapter/criadapter/kubelet/model"
)

// emptyPoll is the period of the check in Empty. leaveTimeout bounds leaveNothing.
const (
	emptyPoll    = 200 * time.Millisecond
	leaveTimeout = 2 * time.Minute
)

// Empty returns a channel that is closed when no pod is left: all sources have listed their pods, no pod is known, and
// none runs. It stays open if ctx ends first.
func (k *Kubelet) Empty(ctx context.Context) <-chan struct{} {
	empty := make(chan struct{})
	go func() {
		tick := time.NewTicker(emptyPoll)
		defer tick.Stop()
		for !k.empty() {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
		close(empty)
	}()
	return empty
}

func (k *Kubelet) empty() bool {
	if !k.sources.config.SeenAllSources() || len(k.workers.Pods()) > 0 || len(k.status.List()) > 0 {
		return false
	}
	for _, pod := range k.pleg.Pods() {
		if pod.Running() {
			return false
		}
	}
	return true
}

// Watch returns a channel that receives a value when statuses have changed, until stop is called.
func (k *Kubelet) Watch() (changed <-chan struct{}, stop func()) { return k.status.Watch() }

// Events returns the last events, the newest last.
func (k *Kubelet) Events() []v1.Event { return k.events.List() }

// leaveNothing removes what this kubelet made: its pods in the runtime, their cgroups, logs and volumes, and the root
// directory. Images stay.
func (k *Kubelet) leaveNothing(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, leaveTimeout)
	defer cancel()
	sandboxes, err := k.runtime.ListPodSandbox(ctx,
		&runtimeapi.PodSandboxFilter{LabelSelector: map[string]string{model.LabelOwner: k.opts.Owner}})
	for _, sandbox := range sandboxes {
		err = errors.Join(err, k.runtime.StopPodSandbox(ctx, sandbox.GetId()),
			k.runtime.RemovePodSandbox(ctx, sandbox.GetId()))
	}
	if err != nil {
		return fmt.Errorf("pods of %s are left in the container runtime: %w", k.opts.Owner, err)
	}
	err = errors.Join(k.cgroups.RemoveAll(ctx), kuberuntime.RemoveLogs(k.opts.PodLogsDir, k.opts.Owner),
		k.volumes.UnmountAll())
	if err != nil {
		return err // the root directory stays: its owner file names the owner of the leftovers
	}
	return k.root.RemoveAll()
}

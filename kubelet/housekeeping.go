package kubelet

import (
	"context"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/criadapter/criadapter/kubelet/container"
	"github.com/criadapter/criadapter/kubelet/cri"
	"github.com/criadapter/criadapter/kubelet/images"
	"github.com/criadapter/criadapter/kubelet/podworkers"
)

// housekeeping ends pods that run and that nobody wants, and forgets what is gone for good.
func (k *Kubelet) housekeeping(ctx context.Context) {
	if !k.mux.Ready() {
		return // a source that has not spoken may want what runs
	}
	running := k.pleg.Pods() // before the workers: a pod that ends in between is known to one of the two
	known := k.workers.Pods()
	for uid, pod := range running {
		if _, ok := known[uid]; !ok && pod.Running() && k.stillRuns(ctx, uid) {
			k.endUnwanted(pod)
		}
	}
	k.rejected.keep(k.mux.Names)
	for _, pod := range k.status.List() {
		if _, ok := known[pod.UID]; !ok && !k.rejected.has(pod.UID) {
			k.status.Forget(pod.UID)
			k.cache.Forget(pod.UID)
		}
	}
	k.followMirrors()
	k.unmountLeftovers(ctx, running)
	k.removeCgroups(ctx, running)
}

// endUnwanted ends what runs of a pod that no source names, or that this node does not take any more.
func (k *Kubelet) endUnwanted(pod *cri.Pod) {
	if rejected := k.rejected.get(pod.UID); rejected != nil {
		k.workers.Terminate(rejected, podworkers.Termination{Reason: "this node does not take the pod"})
		return
	}
	k.workers.Terminate(orphan(pod), podworkers.Termination{Reason: "no source names the pod", Gone: true})
}

// stillRuns asks the runtime: the last list may be older than the pod's end.
func (k *Kubelet) stillRuns(ctx context.Context, uid types.UID) bool {
	status, err := k.cache.Refresh(ctx, uid)
	return err == nil && status.Alive()
}

// unmountLeftovers removes the volumes of pods that ended while no kubelet ran. Which pods are wanted is asked after the
// folders are listed: a pod is known before it has one.
func (k *Kubelet) unmountLeftovers(ctx context.Context, running map[types.UID]*cri.Pod) {
	uids, err := k.volumes.Pods()
	if err != nil {
		logrus.WithError(err).Warn("The pods' folders cannot be listed")
		return
	}
	for _, uid := range uids {
		if k.exists(uid) || running[uid] != nil && running[uid].Running() {
			continue
		}
		if err := k.volumes.Unmount(ctx, uid); err != nil {
			logrus.WithError(err).WithField("uid", uid).Warn("The volumes of a pod that is gone cannot be removed yet")
		}
	}
}

// orphan is what can be said of a pod by what the runtime tells of it.
func orphan(pod *cri.Pod) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: pod.UID, Name: pod.Name, Namespace: pod.Namespace}}
}

// runCollectors collects garbage and rotates logs until ctx ends.
func (k *Kubelet) runCollectors(ctx context.Context) error {
	dead := &container.Collector{Runtime: k.runtime, PodLogsDir: k.opts.PodLogsDir, Keep: k.opts.GC.DeadPerContainer}
	unused := images.NewCollector(images.CollectorOptions{
		Images: k.runtime.Images, Containers: k.runtime, MinAge: k.opts.GC.ImageMinAge,
		HighPercent: k.opts.GC.HighPercent, LowPercent: k.opts.GC.LowPercent,
	})
	logs := &container.Rotator{Runtime: k.runtime, MaxSize: k.opts.Logs.MaxSize, MaxFiles: k.opts.Logs.MaxFiles}
	var loops sync.WaitGroup
	defer loops.Wait()
	loops.Go(func() {
		k.every(ctx, k.opts.GC.Containers, "Collecting dead containers", func(ctx context.Context) error {
			if !k.mux.Ready() {
				return nil
			}
			return dead.Collect(ctx, k.exists)
		})
	})
	loops.Go(func() { k.every(ctx, k.opts.GC.Images, "Collecting unused images", unused.Collect) })
	loops.Go(func() { k.every(ctx, k.opts.Logs.Check, "Rotating logs", logs.Rotate) })
	return nil
}

// exists says whether a pod is wanted, or still being ended.
func (k *Kubelet) exists(uid types.UID) bool {
	_, ok := k.workers.Pods()[uid]
	return ok
}

// every does something again and again while the runtime is ready.
func (k *Kubelet) every(ctx context.Context, period time.Duration, what string, do func(context.Context) error) {
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if k.runtimeErr() != nil {
			continue
		}
		if err := do(ctx); err != nil && ctx.Err() == nil {
			logrus.WithError(err).Warn(what + " failed")
		}
	}
}

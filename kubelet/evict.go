package kubelet

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/kubelet/allocation"
	"github.com/criadapter/criadapter/kubelet/cgroup"
	"github.com/criadapter/criadapter/kubelet/eviction"
	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/kubelet/podworkers"
)

// allocatableMemory returns the memory that pods may have, in bytes, and 0 if nothing is reserved.
func allocatableMemory(host cgroup.Host, reserved v1.ResourceList) int64 {
	if reserved.Memory().IsZero() {
		return 0
	}
	return host.Memory - reserved.Memory().Value()
}

func (k *Kubelet) newEviction(allocated *allocation.Manager) *eviction.Manager {
	return eviction.New(eviction.Options{
		Pods: func() []*v1.Pod {
			var running []*v1.Pod
			for _, pod := range k.workers.Pods() {
				if pod.State == podworkers.Syncing {
					running = append(running, pod.Pod)
				}
			}
			return allocated.AllocatedPods(running)
		},
		Monitor: k.monitor, Stats: k.stats.Stats, Events: k.events, PressureChanged: k.cluster.WakeNodeStatus,
		RemoveDead: k.collectors.RemoveDead, RemoveImages: k.removeImages,
		SoftGrace: k.opts.EvictionMaxPodGrace,
		Evict: func(pod *v1.Pod, why model.Failure, grace int64) bool {
			return k.workers.End(pod.UID,
				podworkers.Termination{Reason: "evicted: " + why.Message, Grace: &grace, Failure: &why})
		},
		Gone: k.gone, Evicted: k.metrics.Evicted,
	})
}

// removeImages removes unused images. Without a cluster, it does so only if image collection is on, because the images
// belong to the machine's users.
func (k *Kubelet) removeImages(ctx context.Context) error {
	if k.opts.Cluster.Kubeconfig == "" && k.opts.GC.HighPercent >= 100 {
		return nil
	}
	return k.collectors.RemoveImages(ctx)
}

// evict evicts pods until ctx ends.
func (k *Kubelet) evict(ctx context.Context) error {
	defer k.stats.Wait()
	return k.eviction.Run(ctx)
}

package kubelet

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/kubelet/nodeshutdown"
	"github.com/criadapter/criadapter/kubelet/podworkers"
)

// runShutdown ends the pods when the machine is shut down, until ctx ends.
func (k *Kubelet) runShutdown(ctx context.Context) error {
	return k.shutdown.Run(ctx, nodeshutdown.Node{
		Pods: func() []*v1.Pod {
			var left []*v1.Pod
			for _, pod := range k.workers.Pods() {
				if pod.State != podworkers.Finished {
					left = append(left, pod.Pod)
				}
			}
			return left
		},
		End: func(pod *v1.Pod, grace int64, why model.Failure) {
			k.workers.End(pod.UID,
				podworkers.Termination{Reason: "the node is shutting down", Grace: &grace, Failure: &why})
		},
		Gone:    k.gone,
		Changed: k.cluster.WakeNodeStatus,
	})
}

// gone reports whether a pod is unknown, or has ended and its volumes and cgroup are removed.
func (k *Kubelet) gone(uid types.UID) bool { return !k.workers.Has(uid) || k.workers.Finished(uid) }

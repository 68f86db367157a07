package kubelet

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/kubelet/nodeshutdown"
	"github.com/criadapter/criadapter/kubelet/podworkers"
)

// newShutdown wires the end of pods when the machine is shut down.
func (k *Kubelet) newShutdown() *nodeshutdown.Manager {
	return nodeshutdown.New(nodeshutdown.Options{
		Grace: k.opts.ShutdownGrace, CriticalGrace: k.opts.ShutdownGraceCritical,
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
			k.workers.End(pod.UID, podworkers.Termination{Reason: "the node is shutting down", Grace: &grace, Failure: &why})
		},
		Gone:    k.gone,
		Changed: func() { k.cluster.WakeNodeStatus() },
	})
}

// gone says that nothing of a pod is left.
func (k *Kubelet) gone(uid types.UID) bool { return !k.workers.Has(uid) || k.workers.Finished(uid) }

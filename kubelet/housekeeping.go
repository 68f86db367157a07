package kubelet

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/criadapter/criadapter/kubelet/cri"
	"github.com/criadapter/criadapter/kubelet/podworkers"
)

// housekeeping ends pods that run and that nobody wants, and forgets what is gone for good.
func (k *Kubelet) housekeeping() {
	if !k.mux.Ready() {
		return // a source that has not spoken may want what runs
	}
	known := k.workers.Pods()
	for uid, pod := range k.pleg.Pods() {
		if _, ok := known[uid]; !ok && pod.Running() {
			k.workers.Terminate(orphan(pod), podworkers.Termination{Reason: "no source names the pod", Gone: true})
		}
	}
	for _, pod := range k.status.List() {
		if _, ok := known[pod.UID]; !ok {
			k.status.Forget(pod.UID)
		}
	}
}

// orphan is what can be said of a pod by what the runtime tells of it.
func orphan(pod *cri.Pod) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: pod.UID, Name: pod.Name, Namespace: pod.Namespace}}
}

package report

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/containerd/log"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/util/workqueue"

	"github.com/criadapter/criadapter/kubelet/model"
)

// work syncs queued pods until the queue is shut down.
func (s *StatusSyncer) work(ctx context.Context, queue workqueue.TypedRateLimitingInterface[types.UID]) {
	for {
		uid, shutdown := queue.Get()
		if shutdown {
			return
		}
		if ctx.Err() == nil {
			s.syncPod(ctx, queue, uid)
		}
		queue.Done(uid)
	}
}

// syncPod reports one pod's status. A failure is retried later. The second failure in a row is logged as a warning. A
// first failure is usual for a new pod: the API server's authorizer may not know yet that the pod runs on this node.
func (s *StatusSyncer) syncPod(
	ctx context.Context, queue workqueue.TypedRateLimitingInterface[types.UID], uid types.UID,
) {
	err := s.report(ctx, uid)
	if err == nil {
		queue.Forget(uid)
		return
	}
	level := log.DebugLevel
	if queue.NumRequeues(uid) == 1 && ctx.Err() == nil {
		level = log.WarnLevel
	}
	log.G(ctx).WithError(err).WithField("podUID", uid).Log(level, "pod status not sent, retrying")
	queue.AddRateLimited(uid)
}

// report makes the API server show the store's status of one pod.
func (s *StatusSyncer) report(ctx context.Context, uid types.UID) error {
	pod := s.opts.Store.Get(uid)
	if pod == nil || s.opts.Store.Held(uid) {
		return nil
	}
	if model.IsStatic(pod) && !s.hasMirror(pod) {
		s.note(uid, sentStatus{gone: true}) // a node may not get a pod of another node
		return nil
	}
	shown, err := s.send(ctx, pod)
	if apierrors.IsNotFound(err) {
		s.note(uid, sentStatus{gone: true})
		return nil
	}
	if err != nil {
		return err
	}
	s.note(uid, sentStatus{pod: pod, answer: shown.Status})
	if !s.removable(shown) {
		return nil
	}
	if err := s.remove(ctx, shown); err != nil {
		return fmt.Errorf("finalise pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	s.note(uid, sentStatus{gone: true})
	return nil
}

// send patches the pod's status if it differs, and returns the pod as the API server has it then. The error is NotFound
// if the API server has no such pod, or another pod with its name.
func (s *StatusSyncer) send(ctx context.Context, pod *v1.Pod) (*v1.Pod, error) {
	shown, err := s.opts.Pods.Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	if err == nil && !shows(shown, pod) {
		err = apierrors.NewNotFound(v1.Resource("pods"), pod.Name)
	}
	if err != nil {
		return nil, fmt.Errorf("get pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	wanted := merged(shown, pod)
	if equality.Semantic.DeepEqual(*normalised(pod, &shown.Status), wanted) {
		return shown, nil
	}
	if shown, err = s.patch(ctx, shown, wanted); err != nil {
		return nil, fmt.Errorf("patch the status of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return shown, nil
}

// shows reports whether the API server's pod is the store's pod, or its current mirror pod.
func shows(shown, pod *v1.Pod) bool {
	if model.IsStatic(pod) {
		return model.IsMirror(shown) && mirrored(shown) == types.UID(pod.Annotations[model.AnnotationConfigHash])
	}
	return shown.UID == pod.UID
}

// patch changes the status from shown to wanted and keeps concurrent changes of other fields. The UID in the patch is a
// precondition: the API server refuses the patch for another pod with the same name.
func (s *StatusSyncer) patch(ctx context.Context, shown *v1.Pod, wanted v1.PodStatus) (*v1.Pod, error) {
	before, err := json.Marshal(v1.Pod{Status: shown.Status})
	if err != nil {
		return nil, err
	}
	after, err := json.Marshal(v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: shown.UID}, Status: wanted})
	if err != nil {
		return nil, err
	}
	patch, err := strategicpatch.CreateTwoWayMergePatch(before, after, v1.Pod{})
	if err != nil {
		return nil, err
	}
	return s.opts.Pods.Pods(shown.Namespace).Patch(ctx, shown.Name, types.StrategicMergePatchType, patch,
		metav1.PatchOptions{}, "status")
}

// remove deletes a finished pod on the API server. It succeeds if the pod is gone or another pod has its name.
func (s *StatusSyncer) remove(ctx context.Context, shown *v1.Pod) error {
	err := s.opts.Pods.Pods(shown.Namespace).Delete(ctx, shown.Name, metav1.DeleteOptions{
		GracePeriodSeconds: new(int64), Preconditions: metav1.NewUIDPreconditions(string(shown.UID)),
	})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

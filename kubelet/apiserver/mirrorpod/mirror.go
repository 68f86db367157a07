package mirrorpod

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/criadapter/criadapter/kubelet/model"
)

// isMirrorOf reports whether mirror is the current mirror pod of a static pod.
func isMirrorOf(mirror, static *v1.Pod) bool {
	return model.IsMirror(mirror) && model.FullName(mirror) == model.FullName(static) &&
		mirror.Annotations[model.AnnotationConfigMirror] == static.Annotations[model.AnnotationConfigHash]
}

// ensure makes sure that the static pod has its mirror pod. Current is the observed pod with the static pod's name, or
// nil. If the server already has a pod with the name, ensure reads that pod and decides again. A mirror pod is replaced
// if it is being deleted or shows an older manifest. The error is an errdefs.ErrFailedPrecondition if the node is not
// registered yet. It is the same error if a pod that is not a mirror pod has the name.
func (m *Manager) ensure(ctx context.Context, static, current *v1.Pod) error {
	if current != nil {
		if done, err := m.clear(ctx, static, current); done || err != nil {
			return err
		}
	}
	err := m.create(ctx, static)
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	if current, err = m.opts.Pods.Pods(static.Namespace).Get(ctx, static.Name, metav1.GetOptions{}); err != nil {
		return fmt.Errorf("get mirror pod %s/%s: %w", static.Namespace, static.Name, err)
	}
	if done, err := m.clear(ctx, static, current); done || err != nil {
		return err
	}
	return m.create(ctx, static)
}

// clear removes current if it must be replaced. Done is true if current is the right mirror pod already. clear fails if
// current is not a mirror pod.
func (m *Manager) clear(ctx context.Context, static, current *v1.Pod) (done bool, err error) {
	switch {
	case !model.IsMirror(current):
		return false, fmt.Errorf("metadata.name: the API server has a pod %s/%s that is not a mirror: %w",
			static.Namespace, static.Name, errdefs.ErrFailedPrecondition)
	case isMirrorOf(current, static) && current.DeletionTimestamp == nil:
		return true, nil
	default:
		return false, m.delete(ctx, current)
	}
}

// delete removes a mirror pod at once, but never another pod that has taken its name. It succeeds if the mirror pod
// does not exist.
func (m *Manager) delete(ctx context.Context, mirror *v1.Pod) error {
	err := m.opts.Pods.Pods(mirror.Namespace).Delete(ctx, mirror.Name, metav1.DeleteOptions{
		GracePeriodSeconds: new(int64), Preconditions: metav1.NewUIDPreconditions(string(mirror.UID)),
	})
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return fmt.Errorf("delete mirror pod %s/%s: %w", mirror.Namespace, mirror.Name, err)
}

func (m *Manager) create(ctx context.Context, static *v1.Pod) error {
	mirror, err := newMirrorPod(static, m.opts.Node())
	if err != nil {
		return err
	}
	if _, err := m.opts.Pods.Pods(mirror.Namespace).Create(ctx, mirror, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create mirror pod %s/%s: %w", mirror.Namespace, mirror.Name, err)
	}
	return nil
}

// newMirrorPod makes the mirror pod of a static pod. Its owner is the node: the API server's admission requires it, and
// the mirror pod is garbage-collected with the node.
func newMirrorPod(static *v1.Pod, node *v1.Node) (*v1.Pod, error) {
	if node == nil || node.UID == "" || node.DeletionTimestamp != nil {
		return nil, fmt.Errorf("mirror pod %s/%s: this node is not registered: %w", static.Namespace, static.Name,
			errdefs.ErrFailedPrecondition)
	}
	mirror := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: static.Name, Namespace: static.Namespace, Labels: maps.Clone(static.Labels),
			Annotations: maps.Clone(static.Annotations),
			OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID, Controller: new(true)}},
		},
		Spec: *static.Spec.DeepCopy(),
	}
	metav1.SetMetaDataAnnotation(&mirror.ObjectMeta, model.AnnotationConfigMirror,
		static.Annotations[model.AnnotationConfigHash])
	if !slices.Contains(mirror.Spec.Tolerations, staysOnNode) {
		mirror.Spec.Tolerations = append(mirror.Spec.Tolerations, staysOnNode)
	}
	return mirror, nil
}

// staysOnNode keeps controllers from deleting the mirror pod when the node gets a taint: the static pod would stay.
var staysOnNode = v1.Toleration{Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute}

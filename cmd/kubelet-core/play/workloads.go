package play

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/containerd/errdefs"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/criadapter/criadapter/kubelet/manifest"
)

// deployment makes the pods of a deployment. They exist while play runs. There is no roll-out.
func (s *Set) deployment(raw []byte) error {
	d, err := decode[appsv1.Deployment](raw)
	if err != nil {
		return err
	}
	return s.replicate(d.ObjectMeta, d.Spec.Template, ptr.Deref(d.Spec.Replicas, 1), v1.RestartPolicyAlways)
}

// daemonSet makes one pod of a daemon set, because a play has one node.
func (s *Set) daemonSet(raw []byte) error {
	d, err := decode[appsv1.DaemonSet](raw)
	if err != nil {
		return err
	}
	return s.replicate(d.ObjectMeta, d.Spec.Template, 1, v1.RestartPolicyAlways)
}

// job makes the pods of a job, which run at the same time. Fields that need a controller are refused.
func (s *Set) job(raw []byte) error {
	j, err := decode[batchv1.Job](raw)
	if err != nil {
		return err
	}
	spec := &j.Spec
	completions := ptr.Deref(spec.Completions, ptr.Deref(spec.Parallelism, 1))
	for _, field := range []struct {
		name string
		set  bool
	}{
		{"suspend: a play runs all of its pods", ptr.Deref(spec.Suspend, false)},
		{"completionMode: only NonIndexed", ptr.Deref(spec.CompletionMode, "") == batchv1.IndexedCompletion},
		{"parallelism: less than completions: the pods of a play run at the same time",
			completions > 1 && ptr.Deref(spec.Parallelism, 1) < completions},
		{"podFailurePolicy: it is for clusters", spec.PodFailurePolicy != nil},
		{"successPolicy: it is for clusters", spec.SuccessPolicy != nil},
		{"manualSelector: it is for clusters", ptr.Deref(spec.ManualSelector, false)},
		{"managedBy: it is for clusters", spec.ManagedBy != nil},
		{"podReplacementPolicy: no pod is replaced", spec.PodReplacementPolicy != nil},
	} {
		if field.set {
			return fmt.Errorf("spec.%s: %w", field.name, errdefs.ErrInvalidArgument)
		}
	}
	if spec.ActiveDeadlineSeconds != nil {
		spec.Template.Spec.ActiveDeadlineSeconds = spec.ActiveDeadlineSeconds
	}
	if spec.BackoffLimit != nil {
		s.note("the backoffLimit of %s does not count: restartPolicy decides whether a container is tried again",
			j.Name)
	}
	return s.replicate(j.ObjectMeta, spec.Template, completions, v1.RestartPolicyNever, v1.RestartPolicyOnFailure)
}

func decode[T any](raw []byte) (*T, error) {
	var read []*T
	if err := manifest.Decode(raw, &read); err != nil {
		return nil, err
	}
	return read[0], nil
}

// replicate makes the pods of a template, with the names NAME-1, NAME-2 and so on. The template's restart policy must
// be one of policies. An empty policy counts as Always, the API server's default.
func (s *Set) replicate(
	meta metav1.ObjectMeta, template v1.PodTemplateSpec, replicas int32, policies ...v1.RestartPolicy,
) error {
	if meta.Name == "" {
		return fmt.Errorf("metadata.name: it is required: %w", errdefs.ErrInvalidArgument)
	}
	policy := cmp.Or(template.Spec.RestartPolicy, v1.RestartPolicyAlways)
	if !slices.Contains(policies, policy) {
		return fmt.Errorf("spec.template.spec.restartPolicy: it is %s, want one of %v: %w", policy, policies,
			errdefs.ErrInvalidArgument)
	}
	for i := range replicas {
		s.pods = append(s.pods, &v1.Pod{ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("%s-%d", meta.Name, i+1), Namespace: meta.Namespace,
			Labels: template.Labels, Annotations: template.Annotations,
		}, Spec: *template.Spec.DeepCopy()})
	}
	return nil
}

package nodeapi

import (
	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/kubelet/model"
)

// hidden replaces a value that the read-only endpoint does not show.
const hidden = "(hidden)"

// hideValues returns copies of pods for clients without authentication: every user of the machine may read them. Like
// /proc, it hides the values of environment variables. It also hides the headers of probes and hooks, which may have
// tokens. kubectl's annotation with the manifest repeats these values, so it is hidden, too.
func hideValues(pods []*v1.Pod) []*v1.Pod {
	out := make([]*v1.Pod, 0, len(pods))
	for _, pod := range pods {
		pod = pod.DeepCopy()
		delete(pod.Annotations, v1.LastAppliedConfigAnnotation)
		model.EachContainer(&pod.Spec, func(c *v1.Container, _ model.Kind) { hideInContainer(c) })
		out = append(out, pod)
	}
	return out
}

func hideInContainer(c *v1.Container) {
	for i := range c.Env {
		if c.Env[i].Value != "" {
			c.Env[i].Value = hidden
		}
	}
	for _, probe := range []*v1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
		if probe != nil {
			hideHeaders(probe.HTTPGet)
		}
	}
	if c.Lifecycle == nil {
		return
	}
	for _, hook := range []*v1.LifecycleHandler{c.Lifecycle.PostStart, c.Lifecycle.PreStop} {
		if hook != nil {
			hideHeaders(hook.HTTPGet)
		}
	}
}

func hideHeaders(get *v1.HTTPGetAction) {
	if get == nil {
		return
	}
	for i := range get.HTTPHeaders {
		get.HTTPHeaders[i].Value = hidden
	}
}

package manifest

import (
	"cmp"
	"maps"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/kubelet/volumekinds"
)

// SetDefaults sets the API server's defaults, since a static pod does not pass through an API server.
func SetDefaults(pod *v1.Pod) {
	fill(&pod.Namespace, v1.NamespaceDefault)
	spec := &pod.Spec
	fill(&spec.RestartPolicy, v1.RestartPolicyAlways)
	fill(&spec.DNSPolicy, v1.DNSClusterFirst)
	fill(&spec.SchedulerName, v1.DefaultSchedulerName)
	fill(&spec.TerminationGracePeriodSeconds, new(int64(v1.DefaultTerminationGracePeriodSeconds)))
	fill(&spec.EnableServiceLinks, new(v1.DefaultEnableServiceLinks))
	fill(&spec.SecurityContext, &v1.PodSecurityContext{})
	model.EachContainer(spec, func(c *v1.Container, _ model.Kind) { defaultContainer(c, spec.HostNetwork) })
	defaultPodRequests(pod)
	for i := range spec.Volumes {
		volumekinds.Default(&spec.Volumes[i].VolumeSource)
	}
}

func fill[T comparable](field *T, value T) { *field = cmp.Or(*field, value) }

func defaultContainer(c *v1.Container, hostNetwork bool) {
	fill(&c.ImagePullPolicy, model.DefaultPullPolicy(c.Image))
	fill(&c.TerminationMessagePath, v1.TerminationMessagePathDefault)
	fill(&c.TerminationMessagePolicy, v1.TerminationMessageReadFile)
	for i := range c.Ports {
		fill(&c.Ports[i].Protocol, v1.ProtocolTCP)
		if hostNetwork {
			fill(&c.Ports[i].HostPort, c.Ports[i].ContainerPort)
		}
	}
	for i := range c.Env {
		if from := c.Env[i].ValueFrom; from != nil && from.FieldRef != nil {
			fill(&from.FieldRef.APIVersion, "v1")
		}
	}
	fillRequests(&c.Resources, c.Resources.Limits)
	for _, probe := range []*v1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
		defaultProbe(probe)
	}
	if c.Lifecycle != nil {
		for _, hook := range []*v1.LifecycleHandler{c.Lifecycle.PostStart, c.Lifecycle.PreStop} {
			if hook != nil {
				defaultHTTP(hook.HTTPGet)
			}
		}
	}
}

func defaultProbe(p *v1.Probe) {
	if p == nil {
		return
	}
	fill(&p.TimeoutSeconds, 1)
	fill(&p.PeriodSeconds, 10)
	fill(&p.SuccessThreshold, 1)
	fill(&p.FailureThreshold, 3)
	defaultHTTP(p.HTTPGet)
	if p.GRPC != nil {
		fill(&p.GRPC.Service, new(""))
	}
}

func defaultHTTP(get *v1.HTTPGetAction) {
	if get == nil {
		return
	}
	fill(&get.Path, "/")
	fill(&get.Scheme, v1.URISchemeHTTP)
}

// defaultPodRequests sets the missing requests in spec.resources of a pod that has limits there (KEP-2837). A request
// becomes the sum of the containers' requests, or else the limit.
func defaultPodRequests(pod *v1.Pod) {
	own := pod.Spec.Resources
	if own == nil || len(own.Limits) == 0 {
		return
	}
	sum := model.ContainerTotals(pod).Requests
	maps.DeleteFunc(sum, func(name v1.ResourceName, _ resource.Quantity) bool { return !ofPods(name) })
	fillRequests(own, sum)
	fillRequests(own, own.Limits)
}

// fillRequests adds the requests that are missing.
func fillRequests(to *v1.ResourceRequirements, from v1.ResourceList) {
	for name, amount := range from {
		if _, ok := to.Requests[name]; !ok {
			if to.Requests == nil {
				to.Requests = v1.ResourceList{}
			}
			to.Requests[name] = amount.DeepCopy()
		}
	}
}

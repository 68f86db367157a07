package manifest

import (
	"fmt"
	"strings"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/criadapter/criadapter/kubelet/fieldcheck"
	"github.com/criadapter/criadapter/kubelet/model"
)

// Validate reports whether the kubelet core can run the pod, which must have its defaults. The error is an
// errdefs.ErrInvalidArgument that names each invalid or unsupported field. Probable mistakes that the API server allows
// are errors only in static pods.
func Validate(pod *v1.Pod) error {
	errs := refuseFields(pod, honouredFields())
	errs = append(errs, validateMetadata(pod)...)
	spec := field.NewPath("spec")
	errs = append(errs, validateSpec(pod, spec)...)
	errs = append(errs, validatePodResources(pod, spec.Child("resources"))...)
	errs = append(errs, validateVolumes(pod, spec.Child("volumes"))...)
	errs = append(errs, validateContainers(pod, spec)...)
	if model.IsStatic(pod) && len(pod.Spec.EphemeralContainers) > 0 {
		errs = append(errs,
			field.Forbidden(spec.Child("ephemeralContainers"),
				"only a running pod of the API server can get ephemeral containers"))
	}
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %w", errs.ToAggregate(), errdefs.ErrInvalidArgument)
}

func validateMetadata(pod *v1.Pod) field.ErrorList {
	meta := field.NewPath("metadata")
	errs := check(meta.Child("name"), pod.Name, validation.IsDNS1123Subdomain)
	errs = append(errs, check(meta.Child("namespace"), pod.Namespace, validation.IsDNS1123Label)...)
	if strings.ContainsAny(string(pod.UID), "/\\_ ") || pod.UID == "." || pod.UID == ".." {
		errs = append(errs, field.Invalid(meta.Child("uid"), pod.UID,
			`it becomes a directory's name, so it must not contain / \ _ or a space, or be . or ..`))
	}
	for key, value := range pod.Labels {
		errs = append(errs, check(meta.Child("labels").Key(key), key, validation.IsQualifiedName)...)
		errs = append(errs, check(meta.Child("labels").Key(key), value, validation.IsValidLabelValue)...)
	}
	for key := range pod.Annotations {
		errs = append(errs,
			check(meta.Child("annotations").Key(key), strings.ToLower(key), validation.IsQualifiedName)...)
	}
	return errs
}

// check converts the messages of a string validator to errors of a field.
func check(path *field.Path, value string, validator func(string) []string) field.ErrorList {
	if value == "" && !strings.HasPrefix(path.String(), "metadata.labels") {
		return field.ErrorList{field.Required(path, "")}
	}
	var errs field.ErrorList
	for _, message := range validator(value) {
		errs = append(errs, field.Invalid(path, value, message))
	}
	return errs
}

func validateSpec(pod *v1.Pod, path *field.Path) field.ErrorList {
	spec := &pod.Spec
	errs := fieldcheck.OneOf(path.Child("restartPolicy"), spec.RestartPolicy, v1.RestartPolicyAlways,
		v1.RestartPolicyOnFailure, v1.RestartPolicyNever)
	errs = append(errs,
		fieldcheck.OneOf(path.Child("dnsPolicy"), spec.DNSPolicy, v1.DNSClusterFirst, v1.DNSClusterFirstWithHostNet,
			v1.DNSDefault, v1.DNSNone)...)
	if spec.DNSPolicy == v1.DNSNone && (spec.DNSConfig == nil || len(spec.DNSConfig.Nameservers) == 0) {
		errs = append(errs,
			field.Required(path.Child("dnsConfig", "nameservers"), "dnsPolicy None needs at least one nameserver here"))
	}
	if spec.TerminationGracePeriodSeconds != nil && model.IsStatic(pod) {
		errs = append(errs,
			fieldcheck.AtLeast(path.Child("terminationGracePeriodSeconds"), *spec.TerminationGracePeriodSeconds, 0)...)
	}
	if spec.ActiveDeadlineSeconds != nil {
		errs = append(errs, fieldcheck.AtLeast(path.Child("activeDeadlineSeconds"), *spec.ActiveDeadlineSeconds, 1)...)
	}
	if spec.Hostname != "" {
		errs = append(errs, check(path.Child("hostname"), spec.Hostname, validation.IsDNS1123Label)...)
	}
	if spec.Subdomain != "" {
		errs = append(errs, check(path.Child("subdomain"), spec.Subdomain, validation.IsDNS1123Label)...)
	}
	if spec.OS != nil {
		errs = append(errs, fieldcheck.OneOf(path.Child("os", "name"), spec.OS.Name, v1.Linux)...)
	}
	if spec.HostUsers != nil && !*spec.HostUsers && (spec.HostNetwork || spec.HostPID || spec.HostIPC) {
		errs = append(errs,
			field.Forbidden(path.Child("hostUsers"),
				"hostUsers false cannot be combined with hostNetwork, hostPID or hostIPC"))
	}
	if spec.HostPID && spec.ShareProcessNamespace != nil && *spec.ShareProcessNamespace {
		errs = append(errs,
			field.Invalid(path.Child("shareProcessNamespace"), true,
				"with hostPID the pod already shares the host's process namespace"))
	}
	return errs
}

func validateContainers(pod *v1.Pod, path *field.Path) field.ErrorList {
	spec := &pod.Spec
	var errs field.ErrorList
	if len(spec.Containers) == 0 {
		errs = append(errs, field.Required(path.Child("containers"), ""))
	}
	c := containerCheck{spec: spec, static: model.IsStatic(pod), names: map[string]bool{}, hostPorts: map[string]bool{}}
	for i := range spec.InitContainers {
		c.check(&spec.InitContainers[i], model.InitKind(&spec.InitContainers[i]), path.Child("initContainers").Index(i))
	}
	for i := range spec.Containers {
		c.check(&spec.Containers[i], model.App, path.Child("containers").Index(i))
	}
	for i := range spec.EphemeralContainers {
		at := path.Child("ephemeralContainers").Index(i)
		c.check(model.AsContainer(&spec.EphemeralContainers[i]), model.Ephemeral, at)
		if target := spec.EphemeralContainers[i].TargetContainerName; target != "" && !c.names[target] {
			c.add(field.NotFound(at.Child("targetContainerName"), target))
		}
	}
	return append(errs, c.errs...)
}

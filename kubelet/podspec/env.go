package podspec

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/kubelet/model"
)

// environment has a container's variables, in the order of their first definitions.
type environment struct {
	names  []string
	values map[string]string
	// services has the variables of services. The container's own variables override them.
	services map[string]string
}

func (e *environment) set(name, value string) {
	if _, ok := e.values[name]; !ok {
		e.names = append(e.names, name)
	}
	e.values[name] = value
}

func (e *environment) lookup(name string) (string, bool) {
	value, ok := e.values[name]
	if !ok {
		value, ok = e.services[name]
	}
	return value, ok
}

func (e *environment) keyValues() []*runtimeapi.KeyValue {
	var pairs []*runtimeapi.KeyValue
	for _, name := range e.names {
		pairs = append(pairs, &runtimeapi.KeyValue{Key: name, Value: []byte(e.values[name])})
	}
	return pairs
}

// environment evaluates the container's envFrom and env. Variables of envFrom come first, and later ones override
// earlier ones. Then the variables of env are set in their order. Variables of services have the lowest precedence.
// $(NAME) in a value stands for an earlier variable, or for a variable of a service.
func (g *Generator) environment(in ContainerInput) (*environment, error) {
	services, err := g.opts.Services(in.Pod)
	if err != nil {
		return nil, err
	}
	env := &environment{values: map[string]string{}, services: services}
	for i := range in.Container.EnvFrom {
		if err := g.setAll(env, in.Pod, &in.Container.EnvFrom[i]); err != nil {
			return nil, fmt.Errorf("envFrom[%d]: %w", i, err)
		}
	}
	for i := range in.Container.Env {
		variable := &in.Container.Env[i]
		if variable.ValueFrom == nil || variable.Value != "" {
			env.set(variable.Name, expand(variable.Value, env.lookup))
			continue
		}
		value, found, err := g.valueFrom(in, variable.ValueFrom)
		if err != nil {
			return nil, fmt.Errorf("env %s: %w", variable.Name, err)
		}
		if found {
			env.set(variable.Name, value)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(env.services)) {
		value, _ := env.lookup(name)
		env.set(name, value)
	}
	return env, nil
}

// setAll sets a variable for each key of a config map or secret. It leaves out a key that is not a valid name.
func (g *Generator) setAll(env *environment, pod *v1.Pod, from *v1.EnvFromSource) error {
	data, what, err := g.allKeys(pod, from)
	if err != nil {
		return err
	}
	var skipped []string
	for _, key := range slices.Sorted(maps.Keys(data)) {
		name := from.Prefix + key
		if len(validation.IsRelaxedEnvVarName(name)) > 0 {
			skipped = append(skipped, name)
			continue
		}
		env.set(name, data[key])
	}
	if len(skipped) > 0 {
		g.opts.Warn(pod, "InvalidEnvironmentVariableNames",
			fmt.Sprintf("Keys of %s were skipped because they are not valid environment variable names: %s", what,
				strings.Join(skipped, ", ")))
	}
	return nil
}

func (g *Generator) allKeys(pod *v1.Pod, from *v1.EnvFromSource) (data map[string]string, what string, err error) {
	switch {
	case from.ConfigMapRef != nil:
		what = fmt.Sprintf("configmap %q", pod.Namespace+"/"+from.ConfigMapRef.Name)
		object, err := g.opts.Objects.ConfigMap(pod, from.ConfigMapRef.Name)
		if err != nil {
			return nil, what, unlessOptional(err, from.ConfigMapRef.Optional)
		}
		return object.Data, what, nil
	case from.SecretRef != nil:
		what = fmt.Sprintf("secret %q", pod.Namespace+"/"+from.SecretRef.Name)
		object, err := g.opts.Objects.Secret(pod, from.SecretRef.Name)
		if err != nil {
			return nil, what, unlessOptional(err, from.SecretRef.Optional)
		}
		return texts(object.Data), what, nil
	default:
		return nil, "", fmt.Errorf("one of configMapRef and secretRef is required: %w", errdefs.ErrInvalidArgument)
	}
}

func texts(data map[string][]byte) map[string]string {
	out := make(map[string]string, len(data))
	for key, value := range data {
		out[key] = string(value)
	}
	return out
}

// unlessOptional returns nil if an optional object is missing.
func unlessOptional(err error, optional *bool) error {
	if isTrue(optional) && errors.Is(err, errdefs.ErrNotFound) {
		return nil
	}
	return err
}

// valueFrom returns the value of one variable. found is false if an optional value is missing.
func (g *Generator) valueFrom(in ContainerInput, from *v1.EnvVarSource) (value string, found bool, err error) {
	switch {
	case from.FieldRef != nil:
		value, err = g.field(in, from.FieldRef.FieldPath)
		return value, err == nil, err
	case from.ResourceFieldRef != nil:
		container := in.Container
		if name := from.ResourceFieldRef.ContainerName; name != "" {
			if container, _ = model.FindContainer(&in.Pod.Spec, name); container == nil {
				return "", false, fmt.Errorf("resourceFieldRef.containerName: the pod has no container %q: %w", name,
					errdefs.ErrInvalidArgument)
			}
		}
		value, err = model.ResourceField(in.Pod, container, from.ResourceFieldRef, g.opts.Allocatable())
		return value, err == nil, err
	case from.ConfigMapKeyRef != nil:
		ref := from.ConfigMapKeyRef
		data, what, err := g.allKeys(in.Pod,
			&v1.EnvFromSource{
				ConfigMapRef: &v1.ConfigMapEnvSource{LocalObjectReference: ref.LocalObjectReference,
					Optional: ref.Optional}})
		return pick(data, key{object: what, name: ref.Key, optional: ref.Optional}, err)
	case from.SecretKeyRef != nil:
		ref := from.SecretKeyRef
		data, what, err := g.allKeys(in.Pod,
			&v1.EnvFromSource{
				SecretRef: &v1.SecretEnvSource{LocalObjectReference: ref.LocalObjectReference, Optional: ref.Optional}})
		return pick(data, key{object: what, name: ref.Key, optional: ref.Optional}, err)
	default:
		return "", false, fmt.Errorf(
			"valueFrom: one of fieldRef, resourceFieldRef, configMapKeyRef and secretKeyRef is required: %w",
			errdefs.ErrInvalidArgument)
	}
}

// key is one key of a config map or secret.
type key struct {
	object, name string
	optional     *bool
}

func pick(data map[string]string, k key, err error) (string, bool, error) {
	if err != nil {
		return "", false, err
	}
	value, ok := data[k.name]
	if !ok && !isTrue(k.optional) {
		return "", false, fmt.Errorf("couldn't find key %s in %s: %w", k.name, k.object, errdefs.ErrNotFound)
	}
	return value, ok, nil
}

// field returns the value of a variable's fieldRef. Unlike in volumes, the pod's addresses are available.
func (g *Generator) field(in ContainerInput, path string) (string, error) {
	node := g.opts.NodeIPs()
	ips := model.PodAddresses(in.PodIPs, cmp.Or(node...))
	if in.Pod.Spec.HostNetwork {
		ips = node
	}
	switch path {
	case "spec.nodeName":
		return g.opts.NodeName, nil
	case "spec.serviceAccountName":
		return in.Pod.Spec.ServiceAccountName, nil
	case "status.hostIP":
		return cmp.Or(node...), nil
	case "status.hostIPs":
		return strings.Join(node, ","), nil
	case "status.podIP":
		return cmp.Or(ips...), nil
	case "status.podIPs":
		return strings.Join(ips, ","), nil
	default:
		return model.PodField(in.Pod, path)
	}
}

package client

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/kubelet/model"
)

// defaultContainer is kubectl's annotation for the default container.
const defaultContainer = "kubectl.kubernetes.io/default-container"

// Ref names a pod.
type Ref struct {
	// Namespace is empty for any.
	Namespace string
	// Name is the pod's name, with or without the suffix of the node's name. It may have the prefix pod/.
	Name string
}

// Find returns the pod that ref names. It returns errdefs.ErrNotFound if ref names no pod, and
// errdefs.ErrInvalidArgument if ref names several pods.
func (c *Client) Find(ctx context.Context, ref Ref) (*v1.Pod, error) {
	pods, err := c.Pods(ctx)
	if err != nil {
		return nil, err
	}
	return Select(pods, ref)
}

// Select is like Find, but searches the given pods.
func Select(pods []v1.Pod, ref Ref) (*v1.Pod, error) {
	name := bareName(ref.Name)
	var found []*v1.Pod
	var names []string
	for i := range pods {
		pod := &pods[i]
		if ref.Namespace != "" && pod.Namespace != ref.Namespace {
			continue
		}
		if Matches(pod, ref) {
			found = append(found, pod)
		}
		names = append(names, pod.Namespace+"/"+pod.Name)
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return nil, fmt.Errorf("%d pods are called %q in different namespaces; name one with --namespace: %w",
			len(found), name, errdefs.ErrInvalidArgument)
	case len(names) == 0:
		return nil, fmt.Errorf("pod %q: there are no pods%s: %w", name, inNamespace(ref), errdefs.ErrNotFound)
	default:
		slices.Sort(names)
		return nil, fmt.Errorf("pod %q: not found%s; there are: %s: %w", name, inNamespace(ref),
			strings.Join(names, ", "), errdefs.ErrNotFound)
	}
}

func bareName(name string) string {
	for _, kind := range []string{"pod/", "pods/", "po/"} {
		if bare, ok := strings.CutPrefix(name, kind); ok {
			return bare
		}
	}
	return name
}

// Matches says whether ref names the pod, by its name or by the name in its manifest.
func Matches(pod *v1.Pod, ref Ref) bool {
	if ref.Namespace != "" && pod.Namespace != ref.Namespace {
		return false
	}
	name := bareName(ref.Name)
	return pod.Name == name || pod.Spec.NodeName != "" && pod.Name == name+"-"+strings.ToLower(pod.Spec.NodeName)
}

func inNamespace(ref Ref) string {
	if ref.Namespace == "" {
		return ""
	}
	return " in namespace " + ref.Namespace
}

// Container returns the name of the container to use: the requested one, or else the one that the annotation
// defaultContainer names, or else the first app container. In the last case, others has the names of all containers if
// the pod has several.
func Container(pod *v1.Pod, requested string) (name string, others []string, err error) {
	var names []string
	model.EachContainer(&pod.Spec, func(c *v1.Container, kind model.Kind) {
		name := c.Name
		switch kind {
		case model.Init, model.Sidecar:
			name += " (init)"
		case model.Ephemeral:
			name += " (ephemeral)"
		}
		names = append(names, name)
	})
	if requested != "" {
		if found, _ := model.FindContainer(&pod.Spec, requested); found == nil {
			return "", nil, fmt.Errorf("pod %s has no container %q; it has: %s: %w", pod.Name, requested,
				strings.Join(names, ", "), errdefs.ErrNotFound)
		}
		return requested, nil, nil
	}
	if found, _ := model.FindContainer(&pod.Spec, pod.Annotations[defaultContainer]); found != nil {
		return found.Name, nil, nil
	}
	if len(pod.Spec.Containers) == 0 {
		return "", nil, fmt.Errorf("pod %s has no container: %w", pod.Name, errdefs.ErrNotFound)
	}
	if len(names) == 1 {
		names = nil
	}
	return pod.Spec.Containers[0].Name, names, nil
}

// containerStatus returns the status of one container, or the zero value if there is none yet.
func containerStatus(pod *v1.Pod, name string) v1.ContainerStatus {
	if status := model.FindStatus(&pod.Status, name); status != nil {
		return *status
	}
	return v1.ContainerStatus{}
}

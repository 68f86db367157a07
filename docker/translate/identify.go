package translate

import (
	"fmt"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Kind is the role of one of the engine's containers in CRI.
type Kind int

const (
	// KindNone is a container that criadapter does not manage.
	KindNone Kind = iota
	// KindSandbox is a pod's sandbox.
	KindSandbox
	// KindContainer is a container of a pod.
	KindContainer
)

// Identify returns the kind of a container by its name and labels together. Labels alone prove nothing, because a
// container also has its image's labels. A name alone proves nothing, because users choose names. Containers of
// dockershim and cri-dockerd are recognised too.
func Identify(name string, labels map[string]string) Kind {
	parsed, ok := parseName(name)
	if !ok {
		return KindNone
	}
	switch labels[LabelKind] {
	case LabelKindSandbox:
		if parsed.kind == KindSandbox && labels[LabelContainerName] == sandboxPart {
			return KindSandbox
		}
	case LabelKindContainer:
		if parsed.kind == KindContainer && labels[LabelSandboxID] != "" {
			return KindContainer
		}
	}
	return KindNone
}

// KindOf is Identify for a container of the engine's list, which may have further names, as links do.
func KindOf(c container.Summary) Kind {
	for _, name := range c.Names {
		if kind := Identify(name, c.Labels); kind != KindNone {
			return kind
		}
	}
	return KindNone
}

// OfNoPod reports whether a container of the engine's list belongs to no pod.
func OfNoPod(c container.Summary) bool { return KindOf(c) == KindNone }

// MadeByUs reports whether criadapter, and not another shim, created a sandbox or container that Identify has
// recognised.
func MadeByUs(labels map[string]string) bool {
	_, ok := readRecord(labels)
	return ok
}

// MadeUnder reports whether a criadapter made a container under this name. Labels alone may come from the container's
// image.
func MadeUnder(name string, labels map[string]string) bool {
	r, ok := readRecord(labels)
	return ok && r.Name == trimName(name)
}

// OtherRootDirectory returns the root directory of the criadapter that owns a container, if it is not rootDirectory.
// The result is empty for a container without this label: another shim made it, or a criadapter that sets no label. If
// rootDirectory is empty, the result is always empty.
func OtherRootDirectory(name string, labels map[string]string, rootDirectory string) string {
	owner := labels[LabelRootDirectory]
	if rootDirectory == "" || owner == "" || owner == rootDirectory || !MadeUnder(name, labels) {
		return ""
	}
	return owner
}

// CheckOwner fails with errdefs.ErrAlreadyExists if a container has the wanted name and does not belong to the
// criadapter with this root directory. The error names the container by its kind, such as "pod sandbox", its name and
// its id.
func CheckOwner(kind, name, id string, labels map[string]string, rootDirectory string) error {
	if owner := OtherRootDirectory(name, labels, rootDirectory); owner != "" {
		return fmt.Errorf(
			"%s %s exists with id %s and belongs to the criadapter with --root-directory=%s, remove it there or use "+
				"a higher attempt: %w",
			kind, name, id, owner, errdefs.ErrAlreadyExists)
	}
	if !MadeUnder(name, labels) {
		return fmt.Errorf(
			"%s %s exists with id %s and was not made by criadapter, remove it first or use a higher attempt: %w",
			kind, name, id, errdefs.ErrAlreadyExists)
	}
	return nil
}

// LogPath returns the absolute path of a container's CRI log, empty for none.
func LogPath(labels map[string]string) string { return labels[LabelLogPath] }

// PodConfig rebuilds a pod's metadata, labels and annotations from its sandbox's labels and name. It fails with
// errdefs.ErrInvalidArgument if the name is not a sandbox's. It fails with errdefs.ErrDataLoss for damaged labels.
func PodConfig(labels map[string]string, name string) (*runtimeapi.PodSandboxConfig, error) {
	parsed, ok := parseName(name)
	if !ok || parsed.kind != KindSandbox {
		return nil, fmt.Errorf("%q is not the name of a sandbox: %w", name, errdefs.ErrInvalidArgument)
	}
	given, annotations, err := decodeLabels(labels, name)
	if err != nil {
		return nil, err
	}
	return &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{
			Name:      parsed.pod,
			Namespace: parsed.namespace,
			Uid:       parsed.uid,
			Attempt:   parsed.attempt,
		},
		Labels:      given,
		Annotations: annotations,
	}, nil
}

// ContainerConfig rebuilds a container's configuration from its labels and name, as PodConfig does, and returns the
// full id of its sandbox. The configuration lacks the log path, which is relative to a directory that the labels do not
// name: see LogPath.
func ContainerConfig(
	labels map[string]string, name string,
) (config *runtimeapi.ContainerConfig, sandboxID string, err error) {
	parsed, ok := parseName(name)
	if !ok || parsed.kind != KindContainer {
		return nil, "", fmt.Errorf("%q is not the name of a pod's container: %w", name, errdefs.ErrInvalidArgument)
	}
	given, annotations, err := decodeLabels(labels, name)
	if err != nil {
		return nil, "", err
	}
	return &runtimeapi.ContainerConfig{
		Metadata:    &runtimeapi.ContainerMetadata{Name: parsed.container, Attempt: parsed.attempt},
		Labels:      given,
		Annotations: annotations,
	}, labels[LabelSandboxID], nil
}

// PodOfContainer rebuilds the configuration of a lost pod from the labels and the name of one of its containers. The
// result has the pod's metadata and the labels by which a kubelet knows it.
func PodOfContainer(
	labels map[string]string, name string,
) (config *runtimeapi.PodSandboxConfig, sandboxID string, ok bool) {
	parsed, isName := parseName(name)
	r, isOurs := readRecord(labels)
	if Identify(name, labels) != KindContainer || !isName || !isOurs || r.Name != trimName(name) {
		return nil, "", false
	}
	config = &runtimeapi.PodSandboxConfig{Metadata: &runtimeapi.PodSandboxMetadata{
		Name: parsed.pod, Namespace: parsed.namespace, Uid: parsed.uid, Attempt: r.PodAttempt,
	}}
	for _, key := range []string{"io.kubernetes.pod.name", "io.kubernetes.pod.namespace", "io.kubernetes.pod.uid"} {
		if value, ok := labels[key]; ok {
			if config.Labels == nil {
				config.Labels = map[string]string{}
			}
			config.Labels[key] = value
		}
	}
	return config, labels[LabelSandboxID], true
}

// trimName removes the slash that the engine puts before names.
func trimName(name string) string { return strings.TrimPrefix(name, "/") }

package state

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/containerd/errdefs"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// LabelPodUID is the label by which kubelets find a pod's sandboxes and containers.
const LabelPodUID = "io.kubernetes.pod.uid"

// Snapshot is the node at one moment. It is immutable and safe for concurrent use. A write makes the next one by
// copying its lists of pointers, so every order that readers want is kept ready and nobody sorts.
type Snapshot struct {
	podsByID, podsByAge, podsByUID, podsByState          ordered[Pod]
	containersByID, containersByAge, containersBySandbox ordered[Container]
	containersByUID, containersByState                   ordered[Container]
}

// with returns the snapshot after a write: pod and container are what the id is now, nil for nothing.
func (s *Snapshot) with(id string, pod *Pod, container *Container) *Snapshot {
	next := *s
	if old := s.pod(id); old != pod {
		next.podsByID = s.podsByID.with(old, pod, podID)
		next.podsByAge = s.podsByAge.with(old, pod, newestPodFirst)
		next.podsByUID = s.podsByUID.with(old, pod, podUIDThenNewest)
		next.podsByState = s.podsByState.with(old, pod, podStateThenNewest)
	}
	if old := s.container(id); old != container {
		next.containersByID = s.containersByID.with(old, container, containerID)
		next.containersByAge = s.containersByAge.with(old, container, newestContainerFirst)
		next.containersBySandbox = s.containersBySandbox.with(old, container, sandboxThenNewest)
		next.containersByUID = s.containersByUID.with(old, container, uidThenNewest)
		next.containersByState = s.containersByState.with(old, container, stateThenNewest)
	}
	return &next
}

// Pod returns the pod of a full id or of an unambiguous id prefix. It fails
// with ErrNotFound, and with ErrInvalidArgument when the prefix fits several.
func (s *Snapshot) Pod(idOrPrefix string) (*Pod, error) {
	return find(s.podsByID, idOrPrefix, func(p *Pod) string { return p.ID }, "pod sandbox")
}

// Container is Pod for containers.
func (s *Snapshot) Container(idOrPrefix string) (*Container, error) {
	return find(s.containersByID, idOrPrefix, func(c *Container) string { return c.ID }, "container")
}

// Pods returns all pods, the newest first. The slice must not be changed.
func (s *Snapshot) Pods() []*Pod { return s.podsByAge }

// Containers returns all containers, the newest first. The slice must not be changed.
func (s *Snapshot) Containers() []*Container { return s.containersByAge }

// ContainersOf returns the containers of the sandbox with this full id, the
// newest first. The slice must not be changed.
func (s *Snapshot) ContainersOf(sandboxID string) []*Container {
	return s.containersBySandbox.equal(func(c *Container) int { return cmp.Compare(c.SandboxID, sandboxID) })
}

// PodsLabelled returns the pods whose label io.kubernetes.pod.uid is uid, the newest first: kubelets ask for pods by
// this label. The slice must not be changed.
func (s *Snapshot) PodsLabelled(uid string) []*Pod {
	return s.podsByUID.equal(func(p *Pod) int { return cmp.Compare(podUID(p), uid) })
}

// ContainersLabelled is PodsLabelled for containers.
func (s *Snapshot) ContainersLabelled(uid string) []*Container {
	return s.containersByUID.equal(func(c *Container) int { return cmp.Compare(containerUID(c), uid) })
}

// PodsIn returns the pods in a state, the newest first. The slice must not be changed.
func (s *Snapshot) PodsIn(state runtimeapi.PodSandboxState) []*Pod {
	return s.podsByState.equal(func(p *Pod) int { return cmp.Compare(p.Status.State(), state) })
}

// ContainersIn is PodsIn for containers.
func (s *Snapshot) ContainersIn(state runtimeapi.ContainerState) []*Container {
	return s.containersByState.equal(func(c *Container) int { return cmp.Compare(c.Status.State(), state) })
}

// pod returns the pod with exactly this id, nil when there is none.
func (s *Snapshot) pod(id string) *Pod {
	if rest := s.podsByID.from(func(p *Pod) int { return cmp.Compare(p.ID, id) }); len(rest) > 0 && rest[0].ID == id {
		return rest[0]
	}
	return nil
}

// container is pod for containers.
func (s *Snapshot) container(id string) *Container {
	if rest := s.containersByID.from(func(c *Container) int { return cmp.Compare(c.ID, id) }); len(rest) > 0 && rest[0].ID == id {
		return rest[0]
	}
	return nil
}

// find looks an id or its beginning up in entries ordered by id, where all that begin alike stand together.
func find[T any](byID ordered[T], idOrPrefix string, id func(*T) string, what string) (*T, error) {
	if idOrPrefix == "" {
		return nil, fmt.Errorf("the %s id is empty: %w", what, errdefs.ErrInvalidArgument)
	}
	rest := byID.from(func(entry *T) int { return cmp.Compare(id(entry), idOrPrefix) })
	if len(rest) == 0 || !strings.HasPrefix(id(rest[0]), idOrPrefix) {
		return nil, fmt.Errorf("%s %q: %w", what, idOrPrefix, errdefs.ErrNotFound)
	}
	if id(rest[0]) != idOrPrefix && len(rest) > 1 && strings.HasPrefix(id(rest[1]), idOrPrefix) {
		return nil, fmt.Errorf("%s id prefix %q fits more than one, give more of it: %w", what, idOrPrefix, errdefs.ErrInvalidArgument)
	}
	return rest[0], nil
}

func podID(a, b *Pod) int { return cmp.Compare(a.ID, b.ID) }

func containerID(a, b *Container) int { return cmp.Compare(a.ID, b.ID) }

func podUID(p *Pod) string { return p.Meta.Config.GetLabels()[LabelPodUID] }

func containerUID(c *Container) string { return c.Meta.Config.GetLabels()[LabelPodUID] }

func newestPodFirst(a, b *Pod) int {
	return cmp.Or(b.Meta.CreatedAt.Compare(a.Meta.CreatedAt), podID(a, b))
}

func newestContainerFirst(a, b *Container) int {
	return cmp.Or(b.Meta.CreatedAt.Compare(a.Meta.CreatedAt), containerID(a, b))
}

func podUIDThenNewest(a, b *Pod) int {
	return cmp.Or(cmp.Compare(podUID(a), podUID(b)), newestPodFirst(a, b))
}

func podStateThenNewest(a, b *Pod) int {
	return cmp.Or(cmp.Compare(a.Status.State(), b.Status.State()), newestPodFirst(a, b))
}

func uidThenNewest(a, b *Container) int {
	return cmp.Or(cmp.Compare(containerUID(a), containerUID(b)), newestContainerFirst(a, b))
}

func stateThenNewest(a, b *Container) int {
	return cmp.Or(cmp.Compare(a.Status.State(), b.Status.State()), newestContainerFirst(a, b))
}

func sandboxThenNewest(a, b *Container) int {
	return cmp.Or(cmp.Compare(a.SandboxID, b.SandboxID), newestContainerFirst(a, b))
}

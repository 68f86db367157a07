package state

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/containerd/errdefs"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// LabelPodUID is the label with which the kubelet filters a pod's sandboxes and containers.
const LabelPodUID = "io.kubernetes.pod.uid"

// Snapshot has the pods and containers at one moment. It is immutable and safe for concurrent use. Its lists of
// pointers are kept in every order that readers need. Its times have no monotonic reading, because times with and
// without one compare differently after the clock was set.
type Snapshot struct {
	pods       table[Pod]
	containers table[Container]
}

// Indexes into a table's views.
const (
	podsByAge = iota
	podsByUID
	podsByState
)

const (
	containersByAge = iota
	containersBySandbox
	containersByUID
	containersByState
)

var (
	podKind = kind[Pod]{
		id: func(p *Pod) string { return p.ID },
		views: []func(a, b *Pod) int{podsByAge: newestPodFirst, podsByUID: podUIDThenNewest,
			podsByState: podStateThenNewest},
	}
	containerKind = kind[Container]{
		id: func(c *Container) string { return c.ID },
		views: []func(a, b *Container) int{
			containersByAge: newestContainerFirst, containersBySandbox: sandboxThenNewest,
			containersByUID: uidThenNewest, containersByState: stateThenNewest,
		},
	}
)

// withPod returns the snapshot with a pod in place of the entry with its id. The new snapshot owns the pod.
func (s *Snapshot) withPod(pod *Pod) *Snapshot {
	pod.Meta.CreatedAt = pod.Meta.CreatedAt.Round(0)
	pod.Status.StartedAt, pod.Status.finishedAt = pod.Status.StartedAt.Round(0), pod.Status.finishedAt.Round(0)
	return &Snapshot{pods: s.pods.with(&podKind, pod.ID, pod), containers: s.containers}
}

// withContainer is withPod for containers.
func (s *Snapshot) withContainer(c *Container) *Snapshot {
	c.Meta.CreatedAt = c.Meta.CreatedAt.Round(0)
	c.Status.StartedAt, c.Status.FinishedAt = c.Status.StartedAt.Round(0), c.Status.FinishedAt.Round(0)
	return &Snapshot{pods: s.pods, containers: s.containers.with(&containerKind, c.ID, c)}
}

// without returns the snapshot without the entry of an id.
func (s *Snapshot) without(id string) *Snapshot {
	return &Snapshot{pods: s.pods.with(&podKind, id, nil), containers: s.containers.with(&containerKind, id, nil)}
}

// Pod returns the pod with a full id or an unambiguous id prefix. It fails with ErrNotFound, and with
// ErrInvalidArgument if several pods have the prefix.
func (s *Snapshot) Pod(idOrPrefix string) (*Pod, error) {
	return find(s.pods.byID, idOrPrefix, podKind.id, "pod sandbox")
}

// Container is Pod for containers.
func (s *Snapshot) Container(idOrPrefix string) (*Container, error) {
	return find(s.containers.byID, idOrPrefix, containerKind.id, "container")
}

// Pods returns all pods, the newest first. The caller must not change the slice.
func (s *Snapshot) Pods() []*Pod { return s.pods.views[podsByAge].all() }

// Containers returns all containers, the newest first. The caller must not change the slice.
func (s *Snapshot) Containers() []*Container { return s.containers.views[containersByAge].all() }

// ContainersOf returns the containers of the sandbox with this full id, the newest first. The caller must not change
// the slice.
func (s *Snapshot) ContainersOf(sandboxID string) []*Container {
	return s.containers.views[containersBySandbox].equal(func(c *Container) int {
		return cmp.Compare(c.SandboxID, sandboxID)
	})
}

// PodOf returns the pod of a container, nil if it is gone.
func (s *Snapshot) PodOf(c *Container) *Pod { return s.pod(c.SandboxID) }

// PodsLabelled returns the pods whose label io.kubernetes.pod.uid is uid, the newest first. The caller must not change
// the slice.
func (s *Snapshot) PodsLabelled(uid string) []*Pod {
	return s.pods.views[podsByUID].equal(func(p *Pod) int { return cmp.Compare(podUID(p), uid) })
}

// ContainersLabelled is PodsLabelled for containers.
func (s *Snapshot) ContainersLabelled(uid string) []*Container {
	return s.containers.views[containersByUID].equal(func(c *Container) int {
		return cmp.Compare(containerUID(c), uid)
	})
}

// PodImages returns the ids of the images that sandbox containers were made of.
func (s *Snapshot) PodImages() map[string]bool {
	ids := map[string]bool{}
	for _, pod := range s.Pods() {
		if pod.Meta.ImageID != "" {
			ids[pod.Meta.ImageID] = true
		}
	}
	return ids
}

// PodsIn returns the pods in a state, the newest first. The caller must not change the slice.
func (s *Snapshot) PodsIn(state runtimeapi.PodSandboxState) []*Pod {
	return s.pods.views[podsByState].equal(func(p *Pod) int { return cmp.Compare(p.Status.State(), state) })
}

// ContainersIn is PodsIn for containers.
func (s *Snapshot) ContainersIn(state runtimeapi.ContainerState) []*Container {
	return s.containers.views[containersByState].equal(func(c *Container) int {
		return cmp.Compare(c.Status.State(), state)
	})
}

// pod returns the pod with this full id, nil if there is none.
func (s *Snapshot) pod(id string) *Pod {
	return s.pods.find(&podKind, id)
}

// container is pod for containers.
func (s *Snapshot) container(id string) *Container {
	return s.containers.find(&containerKind, id)
}

// find returns the entry with an id or id prefix from entries ordered by id.
func find[T any](byID ordered[T], idOrPrefix string, id func(*T) string, what string) (*T, error) {
	if idOrPrefix == "" {
		return nil, fmt.Errorf("the %s id is empty: %w", what, errdefs.ErrInvalidArgument)
	}
	at := byID.from(func(entry *T) int { return cmp.Compare(id(entry), idOrPrefix) })
	first := byID.at(at)
	if first == nil || !strings.HasPrefix(id(first), idOrPrefix) {
		return nil, fmt.Errorf("%s %q: %w", what, idOrPrefix, errdefs.ErrNotFound)
	}
	second := byID.at(byID.after(at))
	if id(first) != idOrPrefix && second != nil && strings.HasPrefix(id(second), idOrPrefix) {
		return nil, fmt.Errorf("%s id prefix %q matches more than one id, give a longer prefix: %w", what, idOrPrefix,
			errdefs.ErrInvalidArgument)
	}
	return first, nil
}

func podUID(p *Pod) string { return p.Meta.Config.GetLabels()[LabelPodUID] }

func containerUID(c *Container) string { return c.Meta.Config.GetLabels()[LabelPodUID] }

func newestPodFirst(a, b *Pod) int {
	return cmp.Or(b.Meta.CreatedAt.Compare(a.Meta.CreatedAt), cmp.Compare(a.ID, b.ID))
}

func newestContainerFirst(a, b *Container) int {
	return cmp.Or(b.Meta.CreatedAt.Compare(a.Meta.CreatedAt), cmp.Compare(a.ID, b.ID))
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

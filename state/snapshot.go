package state

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/containerd/errdefs"
)

// Snapshot is the node at one moment. It is immutable and safe for concurrent
// use.
type Snapshot struct {
	pods       map[string]*Pod
	containers map[string]*Container

	// The sorted views are made by the first reader who wants them, so that a
	// burst of writes does not sort once per write.
	sort             sync.Once
	sortedPods       []*Pod
	sortedContainers []*Container
	bySandbox        map[string][]*Container
}

func newSnapshot(pods map[string]*Pod, containers map[string]*Container) *Snapshot {
	return &Snapshot{pods: maps.Clone(pods), containers: maps.Clone(containers)}
}

// Pod returns the pod of a full id or of an unambiguous id prefix. It fails
// with ErrNotFound, and with ErrInvalidArgument when the prefix fits several.
func (s *Snapshot) Pod(idOrPrefix string) (*Pod, error) {
	return find(s.pods, idOrPrefix, "pod sandbox")
}

// Container is Pod for containers.
func (s *Snapshot) Container(idOrPrefix string) (*Container, error) {
	return find(s.containers, idOrPrefix, "container")
}

// Pods returns all pods, the newest first. The slice must not be changed.
func (s *Snapshot) Pods() []*Pod {
	s.sort.Do(s.buildViews)
	return s.sortedPods
}

// Containers returns all containers, the newest first. The slice must not be
// changed.
func (s *Snapshot) Containers() []*Container {
	s.sort.Do(s.buildViews)
	return s.sortedContainers
}

// ContainersOf returns the containers of the sandbox with this full id, the
// newest first. The slice must not be changed.
func (s *Snapshot) ContainersOf(sandboxID string) []*Container {
	s.sort.Do(s.buildViews)
	return s.bySandbox[sandboxID]
}

func (s *Snapshot) buildViews() {
	s.sortedPods = slices.SortedFunc(maps.Values(s.pods), func(a, b *Pod) int {
		return cmp.Or(b.Meta.CreatedAt.Compare(a.Meta.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	s.sortedContainers = slices.SortedFunc(maps.Values(s.containers), func(a, b *Container) int {
		return cmp.Or(b.Meta.CreatedAt.Compare(a.Meta.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	s.bySandbox = make(map[string][]*Container, len(s.pods))
	for _, c := range s.sortedContainers {
		s.bySandbox[c.SandboxID] = append(s.bySandbox[c.SandboxID], c)
	}
}

func find[T any](entries map[string]*T, idOrPrefix, what string) (*T, error) {
	if entry, ok := entries[idOrPrefix]; ok {
		return entry, nil
	}
	if idOrPrefix == "" {
		return nil, fmt.Errorf("the %s id is empty: %w", what, errdefs.ErrInvalidArgument)
	}
	var found *T
	for id, entry := range entries {
		if !strings.HasPrefix(id, idOrPrefix) {
			continue
		}
		if found != nil {
			return nil, fmt.Errorf("%s id prefix %q fits more than one, give more of it: %w", what, idOrPrefix, errdefs.ErrInvalidArgument)
		}
		found = entry
	}
	if found == nil {
		return nil, fmt.Errorf("%s %q: %w", what, idOrPrefix, errdefs.ErrNotFound)
	}
	return found, nil
}

package artifact

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"
	"github.com/distribution/reference"
	"github.com/opencontainers/go-digest"

	"github.com/criadapter/criadapter/internal/wholedir"
)

// minPrefix is the minimum length of an id's prefix in a lookup.
const minPrefix = 4

// Store keeps artifacts on the disk. All methods are safe for concurrent use.
type Store struct {
	root  string
	certs string

	// changing serializes changes, which wait for the disk. Readers never lock it. Lock changing before mu.
	changing sync.Mutex
	// mu is never held while a change waits for the disk. While it is held, the blobs of the artifacts in byID stay.
	mu sync.Mutex
	// byID are the artifacts. The map itself never changes: each change replaces it, under both locks.
	byID map[string]*kept
}

// Options are the options of Open. Root is required.
type Options struct {
	// Root is the absolute path of the store. Open creates it if it does not exist. Volumes with links to the files
	// must be on the same filesystem.
	Root string
	// Certs has a directory with certificates for each registry, as /etc/docker/certs.d. It need not exist.
	Certs string
}

// Open returns the store in a directory. It removes the remains of a crash. It leaves out a damaged artifact, with a
// warning. Another pull replaces the artifact.
func Open(ctx context.Context, opts Options) (*Store, error) {
	names, err := wholedir.Open(opts.Root)
	if err != nil {
		return nil, err
	}
	s := &Store{root: opts.Root, certs: opts.Certs, byID: make(map[string]*kept)}
	for _, name := range names {
		dir := filepath.Join(opts.Root, name)
		a, err := load(dir)
		if err != nil {
			log.G(ctx).WithError(err).WithField("path", dir).Warn("artifact is damaged, pull it again")
			continue
		}
		s.byID[a.id.String()] = a
	}
	return s, nil
}

// Root returns the path of the store.
func (s *Store) Root() string { return s.root }

// Link makes the files of an artifact below dir, as links to its blobs, and returns their size in bytes. It returns
// false if the store does not have an artifact with this id. A nil Store has none.
func (s *Store) Link(id, dir string) (size int64, ok bool, err error) {
	if s == nil {
		return 0, false, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.byID[id]
	if a == nil {
		return 0, false, nil
	}
	for _, file := range a.files {
		if err := link(dir, file, a.blob(file)); err != nil {
			return 0, true, err
		}
		size += file.Size
	}
	return size, true, nil
}

// list returns the artifacts in no order.
func (s *Store) list() []*kept {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.byID))
}

// engineTags returns the tags of the engine that no artifact has.
func (s *Store) engineTags(tags []string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := func(tag string) bool {
		for _, a := range s.byID {
			if slices.Contains(a.Tags, tag) {
				return true
			}
		}
		return false
	}
	return slices.DeleteFunc(slices.Clone(tags), taken)
}

// find returns the artifact with an id or a name, nil if there is none.
func (s *Store) find(ref string) *kept {
	id, name := idOf(ref), familiar(ref)
	for _, a := range s.list() {
		if a.id.String() == id || slices.Contains(a.Tags, name) || slices.Contains(a.Digests, name) {
			return a
		}
	}
	return nil
}

// ofPrefix returns the only artifact whose id begins with a prefix. It returns nil if there is none, or more than one.
func (s *Store) ofPrefix(prefix string) *kept {
	id := idOf(prefix)
	found := slices.DeleteFunc(s.list(), func(a *kept) bool { return !strings.HasPrefix(a.id.String(), id) })
	if len(found) != 1 || len(id) < len(idOf(""))+minPrefix {
		return nil
	}
	return found[0]
}

// idOf returns an id, or a prefix of one, with its algorithm.
func idOf(ref string) string { return "sha256:" + strings.TrimPrefix(ref, "sha256:") }

// familiar returns a name in the form of an engine's RepoTags and RepoDigests, and any other text as it is.
func familiar(ref string) string {
	named, err := reference.ParseDockerRef(ref)
	if err != nil {
		return ref
	}
	return reference.FamiliarString(named)
}

// add publishes an artifact without names, and gives it the names in given. Other artifacts lose these tags. making is
// the artifact's directory, which is gone afterwards.
func (s *Store) add(making string, id digest.Digest, given names) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	if old := s.byID[id.String()]; old != nil {
		if err := os.RemoveAll(making); err != nil {
			return err
		}
		return s.name(old, given)
	}
	// name adds the tags later, so that a crash never leaves two artifacts with one tag.
	if err := writeNames(making, names{Digests: given.Digests}); err != nil {
		return err
	}
	if err := s.discard(id.Encoded()); err != nil { // a damaged artifact with this id
		return err
	}
	if err := wholedir.Publish(making, id.Encoded()); err != nil {
		return err
	}
	a, err := load(filepath.Join(s.root, id.Encoded()))
	if err != nil {
		return err
	}
	return s.name(a, given)
}

// name gives an artifact more names, and takes the tags from other artifacts. The caller holds changing.
func (s *Store) name(a *kept, given names) error {
	next := maps.Clone(s.byID)
	next[a.id.String()] = a
	defer s.replace(next) // also after a failure, because next is the state on the disk
	if err := take(next, given.Tags, a); err != nil {
		return err
	}
	named, err := a.named(a.names.with(given.Tags, given.Digests))
	if err != nil {
		return err
	}
	next[a.id.String()] = named
	return nil
}

// take removes tags from all artifacts except spared, which may be nil.
func take(byID map[string]*kept, tags []string, spared *kept) error {
	for id, a := range byID {
		for _, tag := range tags {
			if spared != nil && a.id == spared.id || !slices.Contains(a.Tags, tag) {
				continue
			}
			next, err := a.named(a.names.without(tag))
			if err != nil {
				return err
			}
			a = next
			byID[id] = next
		}
	}
	return nil
}

// replace publishes byID to the readers. The caller holds changing.
func (s *Store) replace(byID map[string]*kept) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byID = byID
}

// tag gives the artifact with an id one more tag.
func (s *Store) tag(id digest.Digest, tag string) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	a := s.byID[id.String()]
	if a == nil {
		return fmt.Errorf("artifact %s was removed: %w", id, errdefs.ErrNotFound)
	}
	return s.name(a, names{Tags: []string{familiar(tag)}})
}

// untag takes a tag from the artifact that has it.
func (s *Store) untag(tag string) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	next := maps.Clone(s.byID)
	defer s.replace(next)
	return take(next, []string{familiar(tag)}, nil)
}

// remove removes an artifact. Volumes keep their links.
func (s *Store) remove(id digest.Digest) error {
	removing, err := s.takeAway(id)
	if err != nil {
		return err
	}
	return os.RemoveAll(removing)
}

// takeAway frees the name of an artifact's directory, and returns its new path.
func (s *Store) takeAway(id digest.Digest) (removing string, err error) {
	s.changing.Lock()
	defer s.changing.Unlock()
	before := s.byID
	next := maps.Clone(before)
	delete(next, id.String())
	s.replace(next) // from here on no reader uses the artifact's blobs
	removing, err = wholedir.TakeAway(s.root, id.Encoded())
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		s.replace(before)
		return "", err
	}
	return removing, nil
}

// discard removes a directory, if it exists.
func (s *Store) discard(name string) error {
	removing, err := wholedir.TakeAway(s.root, name)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	return os.RemoveAll(removing)
}

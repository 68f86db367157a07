package image

import (
	"cmp"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
)

// minPrefix is the minimum length of an id's prefix in a lookup, as in engines with the containerd image store.
const minPrefix = 4

// idAlgorithm begins the id of each image.
const idAlgorithm = "sha256:"

// snapshot has the images at one time. It is immutable.
type snapshot struct {
	// complete is false until the first list: images may be missing.
	complete bool
	// byID are the images in the order of their ids, each once.
	byID []*entry
	// byName has the image of each normalName.
	byName map[string]*entry
}

func newSnapshot(entries []*entry, complete bool) *snapshot {
	s := &snapshot{complete: complete, byID: entries, byName: make(map[string]*entry, len(entries))}
	slices.SortFunc(s.byID, func(a, b *entry) int { return cmp.Compare(a.id(), b.id()) })
	for _, e := range s.byID {
		for _, name := range e.names {
			s.byName[name] = e
		}
	}
	return s
}

// lookup returns the image of a name, an id, or a prefix that begins no other id. It returns nil for any other text.
func (s *snapshot) lookup(ref string) *entry {
	if id := fullID(ref); id != "" {
		return s.ofID(id)
	}
	if e := s.byName[normalName(ref)]; e != nil {
		return e
	}
	return s.ofPrefix(ref)
}

// idOf returns the id of the image that ref names, or ref if there is none.
func (s *snapshot) idOf(ref string) string {
	if e := s.lookup(ref); e != nil {
		return e.id()
	}
	return ref
}

func (s *snapshot) ofID(id string) *entry {
	i, found := s.search(id)
	if !found {
		return nil
	}
	return s.byID[i]
}

func (s *snapshot) ofPrefix(ref string) *entry {
	short := strings.TrimPrefix(ref, idAlgorithm)
	if len(short) < minPrefix {
		return nil
	}
	prefix := idAlgorithm + short
	i, _ := s.search(prefix)
	begins := func(i int) bool { return i < len(s.byID) && strings.HasPrefix(s.byID[i].id(), prefix) }
	if !begins(i) || begins(i+1) {
		return nil
	}
	return s.byID[i]
}

func (s *snapshot) search(id string) (int, bool) {
	return slices.BinarySearchFunc(s.byID, id, func(e *entry, id string) int { return cmp.Compare(e.id(), id) })
}

// with returns the snapshot with the image e, which replaces the image with the same id. Other images lose the names of
// e, because a name belongs to one image. It also returns the ids of the changed images.
func (s *snapshot) with(e *entry) (next *snapshot, changed []string) {
	entries, changed := []*entry{e}, []string{e.id()}
	for _, old := range s.byID {
		if old.id() == e.id() {
			continue
		}
		kept := old.unnamed(e.names)
		if kept != old {
			changed = append(changed, old.id())
		}
		entries = append(entries, kept)
	}
	return newSnapshot(entries, s.complete), changed
}

// without returns the snapshot without the image of an id.
func (s *snapshot) without(id string) *snapshot {
	gone := func(e *entry) bool { return e.id() == id }
	return newSnapshot(slices.DeleteFunc(slices.Clone(s.byID), gone), s.complete)
}

// fullID returns the id in ref, which may lack its algorithm. It returns "" for any other text.
func fullID(ref string) string {
	if digest.SHA256.Validate(ref) == nil {
		return idAlgorithm + ref
	}
	if _, err := digest.Parse(ref); err != nil {
		return ""
	}
	return ref
}

package state

import (
	"fmt"

	"github.com/containerd/errdefs"
)

// reservation hides a container that is being made, and remembers what was seen of it meanwhile.
type reservation struct {
	seen map[string]sighting // by the ids of engine containers with the name
}

// sighting says whether the maker's own view may already be out of date.
type sighting struct{ changed bool }

// Reserve takes a container name of the engine for a caller who is about to create it, and hides that container until
// release is called: publish with PutPod or PutContainer first, then release. It fails with ErrAlreadyExists while
// somebody else holds the name. release may be called once; what exists under the name but was not published then
// appears by itself.
func (c *Cache) Reserve(name string) (release func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, taken := c.reserved[name]; taken {
		return nil, fmt.Errorf("the name %q is being created by another request: %w", name, errdefs.ErrAlreadyExists)
	}
	c.reserved[name] = &reservation{seen: map[string]sighting{}}
	return func() { c.release(name) }, nil
}

func (c *Cache) release(name string) {
	c.mu.Lock()
	var look []string
	if r := c.reserved[name]; r != nil {
		for id, seen := range r.seen {
			if seen.changed || !c.knows(id) {
				look = append(look, id)
			}
		}
		delete(c.reserved, name)
	}
	c.mu.Unlock()
	for _, id := range look {
		c.lookLater(id)
	}
}

// hidden reports whether an unpublished engine container is being made by somebody, and notes for the release that it
// was seen. changed means that it was seen to do something that its maker does not do. The caller holds mu.
func (c *Cache) hidden(name, id string, s sighting) bool {
	r, ok := c.reserved[name]
	if ok {
		s.changed = s.changed || r.seen[id].changed
		r.seen[id] = s
	}
	return ok
}

// knows reports whether the id is published.
func (c *Cache) knows(id string) bool {
	now := c.snapshot.Load()
	return now.pod(id) != nil || now.container(id) != nil
}

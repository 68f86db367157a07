package state

import (
	"fmt"

	"github.com/containerd/errdefs"
)

// Reserve reserves a container name of the engine for a caller that is about to create the container. The cache hides
// the container until release. The caller publishes it with PutPod or PutContainer first, then calls release once. An
// unpublished container with the name appears after release. Reserve fails with ErrAlreadyExists while another request
// holds the name.
func (c *Cache) Reserve(name string) (release func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, taken := c.reserved[name]; taken {
		return nil, fmt.Errorf("another request is creating the container %q: %w", name, errdefs.ErrAlreadyExists)
	}
	c.reserved[name] = map[string]bool{}
	return func() { c.release(name) }, nil
}

func (c *Cache) release(name string) {
	c.mu.Lock()
	var look []string
	for id, changed := range c.reserved[name] {
		if changed || !c.knows(id) {
			look = append(look, id)
		}
	}
	delete(c.reserved, name)
	c.mu.Unlock()
	for _, id := range look {
		c.lookLater(id)
	}
}

// hold hides a container until the release of its reserved name. It returns false if the name is not reserved, or if
// the container is already published. changed says that the container changed in a way that its creator did not cause.
// The caller holds mu.
func (c *Cache) hold(name, id string, changed bool) (held bool) {
	hidden, reserved := c.reserved[name]
	if !reserved || c.knows(id) {
		return false
	}
	hidden[id] = hidden[id] || changed
	return true
}

// knows reports whether the id is in the snapshot. The caller holds mu.
func (c *Cache) knows(id string) bool {
	now := c.snapshot.Load()
	return now.pod(id) != nil || now.container(id) != nil
}

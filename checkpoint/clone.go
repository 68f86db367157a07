package checkpoint

import (
	"bytes"
	"maps"
	"slices"
)

// clone returns a copy of r that shares no mutable memory with it.
func (r Record) clone() Record {
	r.Config = bytes.Clone(r.Config)
	if r.Namespaces != nil {
		n := *r.Namespaces
		r.Namespaces = &n
	}
	if r.Cgroup != nil {
		r.Cgroup = &Cgroup{Driver: r.Cgroup.Driver, Parent: r.Cgroup.Parent}
	}
	if r.Network != nil {
		n := *r.Network
		n.IPs = slices.Clone(n.IPs)
		n.Result = bytes.Clone(n.Result)
		r.Network = &n
	}
	r.Containers = maps.Clone(r.Containers)
	for id, c := range r.Containers {
		r.Containers[id] = c.clone()
	}
	r.Paused, r.CheckpointDirs = slices.Clone(r.Paused), slices.Clone(r.CheckpointDirs)
	return r
}

// clone returns a copy of c that shares no mutable memory with it.
func (c Container) clone() Container {
	c.Config = bytes.Clone(c.Config)
	if c.User != nil {
		u := *c.User
		u.Groups = slices.Clone(u.Groups)
		c.User = &u
	}
	if c.End != nil {
		end := *c.End
		c.End = &end
	}
	return c
}

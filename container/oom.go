package container

import (
	"context"
	"sync"

	"github.com/containerd/log"

	"github.com/criadapter/criadapter/state"
)

// oomKills has the last count of out-of-memory kills below each cgroup parent. The zero value is empty.
type oomKills struct {
	mu   sync.Mutex
	seen map[string]*oomCount
}

// oomCount is the last count of kills below one parent. known is false before the first reading. mu is held during a
// reading: if an older count were stored last, the next exit would look like a kill.
type oomCount struct {
	mu    sync.Mutex
	known bool
	kills uint64
}

// countOf returns the count of a parent, a new one for a new parent.
func (k *oomKills) countOf(parent string) *oomCount {
	k.mu.Lock()
	defer k.mu.Unlock()
	count, found := k.seen[parent]
	if !found {
		count = &oomCount{}
		if k.seen == nil {
			k.seen = map[string]*oomCount{}
		}
		k.seen[parent] = count
	}
	return count
}

// begin reads the count of a parent unless it is known, and reports whether it was unknown. A newer count would hide a
// kill that noteOOM has not seen yet.
func (k *oomKills) begin(parent string, read func() (uint64, bool)) (first bool) {
	count := k.countOf(parent)
	count.mu.Lock()
	defer count.mu.Unlock()
	if count.known {
		return false
	}
	count.kills, count.known = read()
	return true
}

// rose reads the count of a parent, and reports whether it is more than the last one. It returns false for the first
// count.
func (k *oomKills) rose(parent string, read func() (uint64, bool)) bool {
	count := k.countOf(parent)
	count.mu.Lock()
	defer count.mu.Unlock()
	kills, ok := read()
	if !ok {
		return false
	}
	rose := count.known && kills > count.kills
	count.kills, count.known = kills, true
	return rose
}

// keep drops the counts of parents that are not used. It calls used while no parent can be added.
func (k *oomKills) keep(used func() map[string]bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	parents := used()
	for parent := range k.seen {
		if !parents[parent] {
			delete(k.seen, parent)
		}
	}
}

// watchOOM stores the present count of kills below the cgroup parent of a container that starts, unless a count is
// stored already. It drops the counts of parents without containers.
func (s *Service) watchOOM(c *state.Container) {
	parent := c.Meta.CgroupParent
	if parent == "" || s.opts.Cgroups == nil || !s.oomKills.begin(parent, s.countOOM(parent, "")) {
		return
	}
	s.oomKills.keep(func() map[string]bool {
		used := map[string]bool{}
		for _, other := range s.opts.Cache.Snapshot().Containers() {
			used[other.Meta.CgroupParent] = true
		}
		return used
	})
}

// noteOOM finds out whether the kernel killed an ended container for want of memory. The engine does not always report
// it on cgroup v2: systemd removes the cgroup of a container at its end, often before containerd has read it. The
// parent's count survives that.
func (s *Service) noteOOM(c *state.Container) {
	parent := c.Meta.CgroupParent
	if parent != "" && s.opts.Cgroups != nil && s.oomKills.rose(parent, s.countOOM(parent, c.ID)) {
		s.opts.Cache.UpdateContainer(c.ID, func(status *state.ContainerStatus) { *status = status.WithOOM() })
	}
}

// SaveOOM saves an out-of-memory kill that the engine has reported, which can come after the exit hook. It is the
// cache's hook for such reports. It never blocks: Watch writes the record.
func (s *Service) SaveOOM(id string) {
	s.leaveToWatch(func(ctx context.Context) {
		c, err := s.opts.Cache.Snapshot().Container(id)
		addFacts := s.facts(id)
		if err != nil || addFacts == nil {
			return // it is removed
		}
		if err := s.changeRecord(ctx, c.SandboxID, id, addFacts); err != nil {
			log.G(ctx).WithError(err).WithFields(c.LogFields()).
				Warn("cannot save the out-of-memory kill of container, it is unknown after a restart of criadapter")
		}
	})
}

// countOOM returns a function that counts the processes that the kernel killed below a cgroup parent. The count
// includes removed cgroups, and the cgroup of the container with this id.
func (s *Service) countOOM(parent, id string) func() (uint64, bool) {
	return func() (uint64, bool) { return s.opts.Cgroups.OOMKills(parent, id) }
}

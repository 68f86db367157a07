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
	seen map[string]uint64
}

func (k *oomKills) has(parent string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, known := k.seen[parent]
	return known
}

// rose stores the count of a parent, and reports whether it is more than the last one. It returns false for the first
// count. Counts are read one at a time: an older one that is stored last would make the next exit look like a kill.
func (k *oomKills) rose(parent string, read func() (uint64, bool)) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	count, ok := read()
	if !ok {
		return false
	}
	last, known := k.seen[parent]
	if k.seen == nil {
		k.seen = map[string]uint64{}
	}
	k.seen[parent] = count
	return known && count > last
}

// keep drops the counts of parents that are not used.
func (k *oomKills) keep(used map[string]bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for parent := range k.seen {
		if !used[parent] {
			delete(k.seen, parent)
		}
	}
}

// watchOOM stores the present count of kills below the cgroup parent of a container that starts, unless a count is
// stored already. It drops the counts of parents without containers.
func (s *Service) watchOOM(c *state.Container) {
	if s.oomKills.has(c.Meta.CgroupParent) {
		return // a newer count would hide a kill that noteOOM has not seen yet
	}
	s.oomRose(c.Meta.CgroupParent, "")
	used := map[string]bool{}
	for _, other := range s.opts.Cache.Snapshot().Containers() {
		used[other.Meta.CgroupParent] = true
	}
	s.oomKills.keep(used)
}

// noteOOM finds out whether the kernel killed an ended container for want of memory. The engine does not always report
// it on cgroup v2: systemd removes the cgroup of a container at its end, often before containerd has read it. The
// parent's count survives that.
func (s *Service) noteOOM(c *state.Container) {
	if s.oomRose(c.Meta.CgroupParent, c.ID) {
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

// oomRose counts the processes that the kernel killed below a cgroup parent, and reports whether there are more than at
// the last call. The count includes removed cgroups, and the cgroup of the container with this id.
func (s *Service) oomRose(parent, id string) bool {
	if parent == "" || s.opts.Cgroups == nil {
		return false
	}
	return s.oomKills.rose(parent, func() (uint64, bool) { return s.opts.Cgroups.OOMKills(parent, id) })
}

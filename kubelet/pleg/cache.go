package pleg

import (
	"context"
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/criadapter/criadapter/kubelet/cri"
	"github.com/criadapter/criadapter/kubelet/model"
)

// Source returns the status of one pod from the runtime. *cri.Runtime implements it.
type Source interface {
	PodStatus(ctx context.Context, uid types.UID) (*model.PodStatus, error)
}

// Cache keeps the last status of each pod, until a list no longer has the pod. A status is valid until the generator
// notices a change that the status does not show. The cache calls the runtime when a caller wants a status, not at each
// change: several changes cost one call. It is safe for concurrent use.
type Cache struct {
	source Source

	mu   sync.RWMutex
	now  uint64 // counts failed calls, and serves as a clock
	pods map[types.UID]entry
}

// entry is the cache's entry of one pod.
type entry struct {
	// status is the last answer, nil before the first one. asked is the value of Cache.now when its call began.
	status *model.PodStatus
	asked  uint64
	// failed is the value of Cache.now after the last failed call.
	failed uint64
	// before and after are the pod before and after all noticed changes that no status has shown yet.
	before, after *cri.Pod
}

// valid says whether the status shows all noticed changes. If the runtime's status is behind its lists and events, the
// next call asks again.
func (e entry) valid() bool {
	return e.status != nil && e.failed <= e.asked && shows(e.status, e.before, e.after)
}

// NewCache makes an empty cache.
func NewCache(source Source) *Cache {
	return &Cache{source: source, pods: map[types.UID]entry{}}
}

// PodStatus returns the pod's status. It calls the runtime only if the cached status is not valid.
func (c *Cache) PodStatus(ctx context.Context, uid types.UID) (*model.PodStatus, error) {
	c.mu.RLock()
	known := c.pods[uid]
	c.mu.RUnlock()
	if known.valid() {
		return known.status, nil
	}
	return c.Refresh(ctx, uid)
}

// Peek returns the last status, valid or not, or nil.
func (c *Cache) Peek(uid types.UID) *model.PodStatus {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.pods[uid].status
}

// Has says whether the pod is in the last list, or has a later status.
func (c *Cache) Has(uid types.UID) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	_, ok := c.pods[uid]
	return ok
}

// All returns all valid statuses.
func (c *Cache) All() []*model.PodStatus {
	c.mu.RLock()
	defer c.mu.RUnlock()
	var all []*model.PodStatus
	for _, known := range c.pods {
		if known.valid() {
			all = append(all, known.status)
		}
	}
	return all
}

// Refresh calls the runtime even if the cached status is valid, for example after the caller changed the pod. After an
// error the next PodStatus calls the runtime again.
func (c *Cache) Refresh(ctx context.Context, uid types.UID) (*model.PodStatus, error) {
	c.mu.RLock()
	asked := c.now
	c.mu.RUnlock()
	status, err := c.source.PodStatus(ctx, uid)
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.pods[uid]
	switch {
	case err != nil:
		c.now++
		known.failed = c.now
	case known.status != nil && known.status.ObservedAt.After(status.ObservedAt):
		return known.status, nil // a later call was answered sooner
	default:
		known.status, known.asked = status, asked
	}
	c.pods[uid] = known
	return status, err
}

// note adds a noticed change.
func (c *Cache) note(uid types.UID, before, after *cri.Pod) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.pods[uid]
	if known.valid() {
		known.before = before
	}
	known.after = after
	c.pods[uid] = known
}

// Forget drops a pod.
func (c *Cache) Forget(uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.pods, uid)
}

// prune drops pods that are not in a list made at the given time. A newer status that has containers or sandboxes
// stays.
func (c *Cache) prune(listed map[types.UID]*cri.Pod, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.pods, func(uid types.UID, known entry) bool {
		return listed[uid] == nil && (conditionsOf(known.status) == nil || known.status.ObservedAt.Before(at))
	})
}

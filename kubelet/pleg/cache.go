package pleg

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/criadapter/criadapter/kubelet/cri"
	"github.com/criadapter/criadapter/kubelet/model"
)

// Source asks the runtime for one pod; *cri.Runtime is one.
type Source interface {
	PodStatus(ctx context.Context, uid types.UID) (*model.PodStatus, error)
}

// Cache keeps the last status of each pod, until the generator's lists have it no more. A status counts until the
// generator notices a change that it does not show. The cache asks the runtime when a status is wanted, not when the
// change is noticed: several changes cost one question. It is safe for concurrent use.
type Cache struct {
	source Source

	mu   sync.RWMutex
	now  uint64 // counts questions without an answer; a clock that does not depend on the machine's
	pods map[types.UID]entry
}

// entry is what is known of one pod.
type entry struct {
	// status is the last answer, nil before the first one; asked is when its question began, in Cache.now.
	status *model.PodStatus
	asked  uint64
	// failed is when a question had no answer, in Cache.now.
	failed uint64
	// before and after are the pod around all changes that the generator noticed and a status has not shown.
	before, after *cri.Pod
}

// valid says whether the status shows all that is known to have happened. A runtime whose status comes after its lists
// and events is asked again.
func (e entry) valid() bool {
	return e.status != nil && e.failed <= e.asked && shows(e.status, e.before, e.after)
}

// NewCache makes an empty cache.
func NewCache(source Source) *Cache {
	return &Cache{source: source, pods: map[types.UID]entry{}}
}

// PodStatus returns what the pod looks like, asking the runtime only if that is not known.
func (c *Cache) PodStatus(ctx context.Context, uid types.UID) (*model.PodStatus, error) {
	c.mu.RLock()
	known := c.pods[uid]
	c.mu.RUnlock()
	if known.valid() {
		return known.status, nil
	}
	return c.Refresh(ctx, uid)
}

// Peek returns the last status, which a change may have outdated; nil for none.
func (c *Cache) Peek(uid types.UID) *model.PodStatus {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.pods[uid].status
}

// All returns the statuses that no change has outdated.
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

// Refresh asks the runtime, because the caller changed the pod. After an error the next PodStatus asks again.
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
		return known.status, nil // a later question was answered sooner
	default:
		known.status, known.asked = status, asked
	}
	c.pods[uid] = known
	return status, err
}

// note keeps a change that the generator noticed.
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

// prune drops the pods that a list made at the given time does not have: what was observed of them before is over, and
// that there was nothing since is not worth keeping.
func (c *Cache) prune(listed map[types.UID]*cri.Pod, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for uid, known := range c.pods {
		if listed[uid] == nil && (conditionsOf(known.status) == nil || known.status.ObservedAt.Before(at)) {
			delete(c.pods, uid)
		}
	}
}

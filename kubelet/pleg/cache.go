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

// Cache keeps the last status of each pod, until the generator's lists have it no more. It is safe for concurrent use.
type Cache struct {
	source Source

	mu   sync.RWMutex
	pods map[types.UID]*model.PodStatus
}

// NewCache makes an empty cache.
func NewCache(source Source) *Cache {
	return &Cache{source: source, pods: map[types.UID]*model.PodStatus{}}
}

// Get returns what the pod looked like at the given time or later, asking the runtime if that is not known.
func (c *Cache) Get(ctx context.Context, uid types.UID, notBefore time.Time) (*model.PodStatus, error) {
	if known := c.Peek(uid); known != nil && known.ObservedAt.After(notBefore) {
		return known, nil
	}
	return c.Refresh(ctx, uid)
}

// Peek returns the last status, nil for none.
func (c *Cache) Peek(uid types.UID) *model.PodStatus {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.pods[uid]
}

// Refresh asks the runtime.
func (c *Cache) Refresh(ctx context.Context, uid types.UID) (*model.PodStatus, error) {
	status, err := c.source.PodStatus(ctx, uid)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.pods[uid]; known != nil && known.ObservedAt.After(status.ObservedAt) {
		return known, nil // a later question was answered sooner
	}
	c.pods[uid] = status
	return status, nil
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
	for uid, status := range c.pods {
		if listed[uid] == nil && (fromStatus(status) == nil || status.ObservedAt.Before(at)) {
			delete(c.pods, uid)
		}
	}
}

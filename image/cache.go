package image

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/containerd/errdefs"

	"github.com/criadapter/criadapter/docker"
)

// cache has the engine's images in memory. The package comment has its guarantees.
type cache struct {
	engine docker.Images
	// now is replaced only under mu.
	now atomic.Pointer[snapshot]
	// wake holds a token while a relist is requested.
	wake chan struct{}
	// listing serializes relists. writing serializes refreshes and own removals.
	listing, writing turn

	mu sync.Mutex
	// seq counts the writes. written has the value of seq at the last write of each image id, even for a removed image.
	// A list that was requested after the write removes the id from written.
	seq     uint64
	written map[string]uint64
	// suspects are names and ids in events since the last list.
	suspects map[string]bool
}

func newCache(engine docker.Images) *cache {
	c := &cache{
		engine:   engine,
		wake:     make(chan struct{}, 1),
		listing:  newTurn(),
		writing:  newTurn(),
		written:  make(map[string]uint64),
		suspects: make(map[string]bool),
	}
	c.now.Store(newSnapshot(nil, false))
	return c
}

// snapshot returns the current images. It asks the engine only if the cache was not filled yet.
func (c *cache) snapshot(ctx context.Context) (*snapshot, error) {
	if now := c.now.Load(); now.complete {
		return now, nil
	}
	if err := c.listing.take(ctx); err != nil {
		return nil, fmt.Errorf("the engine's images are still being read: %w", err)
	}
	defer c.listing.give()
	if now := c.now.Load(); now.complete {
		return now, nil
	}
	if err := c.relist(ctx); err != nil {
		return nil, err
	}
	return c.now.Load(), nil
}

// refresh inspects an image and publishes the answer, so that the caller reads its own change. It fails with
// ErrNotFound, and publishes that, too, if the engine does not have the image.
func (c *cache) refresh(ctx context.Context, ref string) (*entry, error) {
	if err := c.writing.take(ctx); err != nil {
		return nil, fmt.Errorf("another image is being inspected: %w", err)
	}
	defer c.writing.give()
	inspect, err := c.engine.InspectImage(ctx, ref)
	if errdefs.IsNotFound(err) {
		c.publishMissing(ref)
	}
	if err != nil {
		return nil, err
	}
	e, err := fromInspect(inspect)
	if err != nil {
		return nil, err
	}
	c.publish(e)
	return e, nil
}

// publish publishes an image, except an unknown image without a name. Such an image may be a layer of another image,
// and the engine does not list layers.
func (c *cache) publish(e *entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now.Load()
	if len(e.names) == 0 && now.ofID(e.id()) == nil {
		c.ask()
		return
	}
	next, changed := now.with(e)
	c.store(next, changed...)
}

// publishMissing publishes that the engine has no image of this name or id.
func (c *cache) publishMissing(ref string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now.Load()
	if id := fullID(ref); id != "" {
		c.store(now.without(id), id)
		return
	}
	known := now.lookup(ref)
	if known == nil {
		return
	}
	c.ask() // the image may have lost only this name
	next, changed := now.with(known.unnamed([]string{normalName(ref)}))
	c.store(next, changed...)
}

// dropUnchanged publishes that an image is gone, unless another entry of the image has replaced before in the cache. It
// reports whether it has published the removal.
func (c *cache) dropUnchanged(ctx context.Context, before *entry) bool {
	if c.writing.take(ctx) != nil { // an inspect under way may be older than the removal
		return false
	}
	defer c.writing.give()
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now.Load()
	if known := now.ofID(before.id()); known != nil && known != before {
		return false
	}
	c.store(now.without(before.id()), before.id())
	return true
}

// drop publishes that an image is gone.
func (c *cache) drop(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.store(c.now.Load().without(id), id)
}

// store replaces the snapshot after a write of these ids. The caller holds mu.
func (c *cache) store(next *snapshot, ids ...string) {
	c.seq++
	for _, id := range ids {
		c.written[id] = c.seq
	}
	c.now.Store(next)
}

// replace publishes the images of a list that was requested at asked. Images that were written since stay as they are.
func (c *cache) replace(listed []*entry, asked uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	newer := func(e *entry) bool { return c.written[e.id()] > asked }
	var images []*entry
	for _, e := range listed {
		if !newer(e) {
			images = append(images, e)
		}
	}
	for _, e := range c.now.Load().byID {
		if newer(e) {
			images = append(images, e)
		}
	}
	maps.DeleteFunc(c.written, func(_ string, at uint64) bool { return at <= asked })
	c.now.Store(newSnapshot(images, true))
}

// changed asks for a relist that inspects the image of a name or id. It never blocks.
func (c *cache) changed(ref string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.suspects[ref] = true
	c.ask()
}

// ask asks for a relist and never blocks.
func (c *cache) ask() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

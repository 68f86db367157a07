package image

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"
	"github.com/moby/moby/api/types/image"
	"golang.org/x/sync/errgroup"
)

const (
	// inspectsAtOnce is the number of images that a relist inspects concurrently. An inspect costs the engine up to
	// 10 ms, and the first list of a node may need hundreds.
	inspectsAtOnce = 4
	// inspectPatience bounds one inspect of a relist. An image whose inspect hangs delays the other images only by this
	// time.
	inspectPatience = 10 * time.Second
)

// relist compares the cache with the engine's list and repairs the difference. The caller holds listing.
func (c *cache) relist(ctx context.Context) error {
	asked, suspects := c.beginRelist()
	listed, err := c.list(ctx, suspects)
	if err != nil {
		c.suspectAgain(suspects)
		return err
	}
	c.replace(listed, asked)
	return nil
}

// beginRelist takes the suspects, which the relist inspects. The relist serves all earlier calls of ask.
func (c *cache) beginRelist() (asked uint64, suspects map[string]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.wake:
	default:
	}
	suspects, c.suspects = c.suspects, make(map[string]bool)
	return c.seq, suspects
}

func (c *cache) suspectAgain(suspects map[string]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for ref := range suspects {
		c.suspects[ref] = true
	}
}

// list returns the engine's images. It inspects each image that differs from the cache or is named in suspects.
func (c *cache) list(ctx context.Context, suspects map[string]bool) ([]*entry, error) {
	summaries, err := c.engine.ListImages(ctx)
	if err != nil {
		return nil, err
	}
	before := c.now.Load()
	var mu sync.Mutex
	entries := make([]*entry, 0, len(summaries))
	add := func(e *entry) {
		mu.Lock()
		defer mu.Unlock()
		entries = append(entries, e)
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(inspectsAtOnce)
	for _, summary := range summaries {
		old := before.ofID(summary.ID)
		if old != nil && old.agrees(summary) && !suspected(summary, suspects) {
			add(old.sized(summary.Size))
			continue
		}
		group.Go(func() error {
			e, err := c.inspectListed(groupCtx, summary, old)
			if e != nil {
				add(e)
			}
			return err
		})
	}
	return entries, group.Wait()
}

// suspected reports whether an event named the image, by its id or one of its names.
func suspected(summary image.Summary, suspects map[string]bool) bool {
	suspect := func(name string) bool { return suspects[name] }
	return suspect(summary.ID) || slices.ContainsFunc(summary.RepoTags, suspect) ||
		slices.ContainsFunc(summary.RepoDigests, suspect)
}

// inspectListed inspects a listed image. It returns nil if the image was removed meanwhile. If the engine answers, but
// cannot inspect the image, inspectListed returns the image from the list. So one damaged image does not hide the
// others.
func (c *cache) inspectListed(ctx context.Context, summary image.Summary, old *entry) (*entry, error) {
	look, cancel := context.WithTimeout(ctx, inspectPatience)
	defer cancel()
	inspect, err := c.engine.InspectImage(look, summary.ID)
	var e *entry
	if err == nil {
		e, err = fromInspect(inspect)
	}
	switch {
	case err == nil:
		return e.sized(summary.Size), nil
	case errdefs.IsNotFound(err):
		return nil, nil
	case ctx.Err() != nil || errdefs.IsUnavailable(err):
		return nil, err
	}
	if old == nil || !old.failed {
		log.G(ctx).WithError(err).WithField("imageID", summary.ID).
			Warn("engine cannot inspect image, listing it without its user: pull it again or remove it")
	}
	return fromSummary(summary, old), nil
}

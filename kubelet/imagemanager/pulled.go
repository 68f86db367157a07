package imagemanager

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/criadapter/criadapter/kubelet/jsonfile"
)

// Pulled records, by id and across restarts, which images this node pulled and did not have before. Other images belong
// to other users of the runtime, and are never removed. It is safe for concurrent use.
type Pulled struct {
	path string

	mu sync.Mutex
	// ids have the time when this process added them, zero for ids of earlier processes.
	ids map[string]time.Time
	// dirty says that the last write failed.
	dirty bool
}

// OpenPulled reads the file at path, a list in JSON. A missing file is an empty list.
func OpenPulled(path string) (*Pulled, error) {
	p := &Pulled{path: path, ids: map[string]time.Time{}}
	var ids []string
	if _, err := jsonfile.Read(path, &ids); err != nil {
		return nil, fmt.Errorf("pulled images: %w",
			jsonfile.Advise(path, err, "remove the file, then garbage collection keeps all present images"))
	}
	for _, id := range ids {
		p.ids[id] = time.Time{}
	}
	return p, nil
}

// has reports whether the node pulled an image.
func (p *Pulled) has(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, has := p.ids[id]
	return has
}

// add records an image. After an error, only this process knows the image, and the next add writes the file again. A
// full disk may have caused the error, so garbage collection must be able to remove the image.
func (p *Pulled) add(id string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, has := p.ids[id]
	p.ids[id] = time.Now()
	if has && !p.dirty {
		return nil
	}
	return p.save()
}

// keep forgets images that are gone, because another client may pull them again. present is from a list that was
// requested at the time listed. Images that were added later may be missing there, so they stay.
func (p *Pulled) keep(present func(id string) bool, listed time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := len(p.ids)
	maps.DeleteFunc(p.ids, func(id string, added time.Time) bool { return added.Before(listed) && !present(id) })
	if len(p.ids) == before {
		return nil
	}
	return p.save()
}

// save replaces the file. The caller holds mu.
func (p *Pulled) save() error {
	err := jsonfile.Save(p.path, "pulled images", slices.Sorted(maps.Keys(p.ids)))
	p.dirty = err != nil
	return err
}

package image

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/containerd/log"

	"github.com/criadapter/criadapter/internal/pace"
)

// firstMeasurement bounds a call's wait for the first measurement. On a small node, the measurement takes less.
const firstMeasurement = time.Second

// measurePace spaces the measurements, because walking a million files must not keep the disk busy all day.
var measurePace = pace.Pace{Shortest: 30 * time.Second, Longest: 5 * time.Minute}

// footprint is the disk usage of a set of files.
type footprint struct {
	bytes, inodes uint64
}

// usage is one measurement. If image layers and container layers cannot be distinguished, its two values are equal.
type usage struct {
	taken              time.Time
	images, containers footprint
}

// usageMeter measures an engine's layers in the background, only on request.
type usageMeter struct {
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup
	// walk measures a storage. It is layerSizes.measure, except in tests.
	walk func(context.Context, storage) (usage, error)

	mu   sync.Mutex
	last *usage
	// due is the time from which last is too old.
	due time.Time
	// underway is closed when the measurement under way ends, nil without one.
	underway chan struct{}
}

func newUsageMeter() *usageMeter {
	// A measurement outlives the request that begins it: it ends with close.
	ctx, cancel := context.WithCancel(log.WithLogger(context.Background(), log.L.WithField("component", "image")))
	return &usageMeter{ctx: ctx, cancel: cancel, walk: new(layerSizes).measure}
}

// close ends a measurement under way and waits for it.
func (m *usageMeter) close() {
	m.mu.Lock() // refresh must not call Go after the Wait
	m.cancel()
	m.mu.Unlock()
	m.work.Wait()
}

// get returns the last measurement, and begins another one if it is too old. It waits up to firstMeasurement for the
// first one. It returns false without a measurement.
func (m *usageMeter) get(ctx context.Context, place storage) (usage, bool) {
	if len(place.layers) == 0 {
		return usage{}, false
	}
	last, underway := m.refresh(place)
	if last == nil && underway != nil {
		wait := time.NewTimer(firstMeasurement)
		defer wait.Stop()
		select {
		case <-underway:
		case <-wait.C:
		case <-ctx.Done():
		}
		last = m.latest()
	}
	if last == nil {
		return usage{}, false
	}
	return *last, true
}

func (m *usageMeter) latest() *usage {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.last
}

// refresh begins a measurement if one is due and none is under way.
func (m *usageMeter) refresh(place storage) (last *usage, underway <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.underway == nil && time.Now().After(m.due) && m.ctx.Err() == nil {
		m.underway = make(chan struct{})
		m.work.Go(func() { m.measure(place) })
	}
	return m.last, m.underway
}

// measure has no deadline: a retry of an interrupted walk would take as long.
func (m *usageMeter) measure(place storage) {
	start := time.Now()
	measured, err := m.walk(m.ctx, place)
	if err != nil && m.ctx.Err() == nil { // a walk that close cancels is no failure
		log.G(m.ctx).WithError(err).WithField("paths", place.layers).
			Warn("cannot measure disk usage of images, keeping the last measurement")
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err == nil {
		m.last = &measured
	}
	m.due = time.Now().Add(measurePace.After(time.Since(start)))
	close(m.underway)
	m.underway = nil
}

// containerLayers returns the names of the layer directories of containers. The engine records two for each container:
// its own layer, and the layer below with the engine's own files.
func containerLayers(mounts string) map[string]bool {
	names := make(map[string]bool)
	if mounts == "" {
		return names
	}
	records, err := os.ReadDir(mounts)
	if err != nil {
		return names
	}
	for _, record := range records {
		for _, file := range []string{"mount-id", "init-id"} {
			if name, err := os.ReadFile(filepath.Join(mounts, record.Name(), file)); err == nil {
				names[strings.TrimSpace(string(name))] = true
			}
		}
	}
	return names
}

// walk adds up files. It counts a file with several names once, and skips mounts below the directory, such as the root
// filesystem of a running container.
type walk struct {
	ctx                context.Context
	containerLayers    map[string]bool
	images, containers footprint
	// links are the files with several names that were seen.
	links map[inode]bool
	// committed are the directories of layers that never change. known has their sizes from earlier walks, and measured
	// has their sizes from this walk.
	committed       map[string]bool
	known, measured map[string]footprint
}

// inode identifies a file of the node under any of its names.
type inode struct{ device, number uint64 }

func (w *walk) dir(root string) error {
	info, err := os.Lstat(root)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	device, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	return w.tree(root, device.Dev, &w.images)
}

// tree adds a directory and its files on the device to sum.
func (w *walk) tree(path string, device uint64, sum *footprint) error {
	return filepath.WalkDir(path, func(name string, entry fs.DirEntry, err error) error {
		if w.ctx.Err() != nil {
			return w.ctx.Err()
		}
		if err != nil {
			// Layers come and go while they are counted.
			return skipGone(err)
		}
		if entry.IsDir() && name != path && w.containerLayers[entry.Name()] && sum == &w.images {
			if err := w.tree(name, device, &w.containers); err != nil {
				return err
			}
			return fs.SkipDir
		}
		if entry.IsDir() && w.committed[name] && sum == &w.images {
			return w.layer(name, device)
		}
		return w.add(entry, device, sum)
	})
}

// layer adds a layer that never changes, and caches its size.
func (w *walk) layer(path string, device uint64) error {
	size, known := w.known[path]
	if !known {
		alone := walk{ctx: w.ctx, links: make(map[inode]bool)}
		if err := alone.tree(path, device, &alone.images); err != nil {
			return err
		}
		size = alone.images
	}
	w.measured[path] = size
	w.images.bytes += size.bytes
	w.images.inodes += size.inodes
	return fs.SkipDir
}

func (w *walk) add(entry fs.DirEntry, device uint64, sum *footprint) error {
	info, err := entry.Info()
	if err != nil {
		return skipGone(err)
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	if stat.Dev != device {
		if entry.IsDir() {
			return fs.SkipDir
		}
		return nil
	}
	if !entry.IsDir() && stat.Nlink > 1 {
		file := inode{device, stat.Ino}
		if w.links[file] {
			return nil
		}
		w.links[file] = true
	}
	const blockSize = 512 // the unit of st_blocks on every filesystem
	sum.bytes += uint64(stat.Blocks) * blockSize
	sum.inodes++
	return nil
}

// skipGone ignores that a file has vanished.
func skipGone(err error) error {
	if os.IsNotExist(err) {
		return nil
	}
	return err
}

package stats

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/containerd/log"

	"github.com/criadapter/criadapter/state"
)

const (
	// countEvery is the shortest pause between two counts of a layer, countRest how many times longer than a count it
	// is, countOldest where that ends, and countShare how many times longer it is in any case: counting a million files
	// must not keep the disk busy all day.
	countEvery  = 10 * time.Second
	countRest   = 50
	countOldest = 4 * time.Minute
	countShare  = 3
	// countWorkers count at the same time, so that one huge layer does not hold up all others.
	countWorkers = 2
)

// pauseAfter returns how long a layer is left alone after a count. There is no limit to the count itself: one that a
// deadline ends is for nothing, and the next one would take as long.
func pauseAfter(took time.Duration) time.Duration {
	return max(countEvery, min(countRest*took, countOldest), countShare*took)
}

// layerUsage is one count of a container's writable layer.
type layerUsage struct {
	diskUsage
	taken time.Time
	// mountpoint stands for the filesystem: the engine's data directory, or that of the snapshotter, as in ImageFsInfo.
	mountpoint string
	filesystem filesystem
}

// layer is what is remembered of a container's writable layer.
type layer struct {
	// upper is its directory, empty until it is known.
	upper string
	pid   int
	last  *layerUsage
	// due is when last is too old, and queued says that a count is to come.
	due    time.Time
	queued bool
}

// layerMeter counts what containers have written, few layers at a time, in the
// background and only when somebody asks. It is safe for concurrent use.
type layerMeter struct {
	proc   string
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup
	// walk counts a directory: countDir, but for tests.
	walk func(ctx context.Context, dir string) (diskUsage, error)

	mu     sync.Mutex
	layers map[string]*layer
	queue  []string
	// counting is how many goroutines work on the queue.
	counting int
	// uncounted are the filesystems of layers that cannot be counted, each said once.
	uncounted map[string]bool
}

func newLayerMeter(proc string) *layerMeter {
	ctx, cancel := context.WithCancel(log.WithLogger(context.Background(), log.L.WithField("component", "stats")))
	return &layerMeter{proc: proc, ctx: ctx, cancel: cancel, walk: countDir, layers: map[string]*layer{}, uncounted: map[string]bool{}}
}

// close ends a count under way and waits for its end.
func (m *layerMeter) close() {
	m.mu.Lock()
	m.cancel()
	m.mu.Unlock()
	m.work.Wait()
}

// get returns the last count of a container's layer, and has it counted again when that is too old. It never waits for
// the disk. It is false before the first count, and where the layer cannot be told from the image.
func (m *layerMeter) get(container *state.Container) (layerUsage, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.layers[container.ID]
	if l == nil {
		l = &layer{upper: container.Meta.UpperDir}
		m.layers[container.ID] = l
	}
	l.pid = container.Status.PID
	if !l.queued && !time.Now().Before(l.due) && m.ctx.Err() == nil {
		l.queued = true
		m.queue = append(m.queue, container.ID)
		if m.counting < countWorkers {
			m.counting++
			m.work.Go(m.count)
		}
	}
	if l.last == nil {
		return layerUsage{}, false
	}
	return *l.last, true
}

// forget drops the layers of containers that exist no more.
func (m *layerMeter) forget(exists func(id string) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id := range m.layers {
		if !exists(id) {
			delete(m.layers, id)
		}
	}
}

// count works on the queue until it is empty.
func (m *layerMeter) count() {
	for {
		id, upper, pid, ok := m.pop()
		if !ok {
			return
		}
		start := time.Now()
		if upper == "" {
			upper = m.find(pid)
		}
		usage, err := m.measure(upper)
		if err != nil && !os.IsNotExist(err) && m.ctx.Err() == nil {
			log.G(m.ctx).WithError(err).WithField("containerID", id).Warn("cannot measure writable layer, keeping the last count")
		}
		m.done(id, upper, usage, time.Since(start))
	}
}

// find finds the directory of the writable layer of a running container by its
// mounts, and says once of each kind of filesystem that it has none.
func (m *layerMeter) find(pid int) string {
	upper, filesystem := upperOf(m.proc, pid)
	if upper != "" || filesystem == "" {
		return upper
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.uncounted[filesystem] {
		m.uncounted[filesystem] = true
		log.G(m.ctx).WithField("filesystem", filesystem).Warn("the storage driver keeps what containers write in no directory of its own, " +
			"writable layers are not counted and no limit of ephemeral storage applies to them")
	}
	return ""
}

// pop takes the next layer from the queue; false when it is empty, or the meter is closed, and the goroutine must end.
func (m *layerMeter) pop() (id, upper string, pid int, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for len(m.queue) > 0 && m.ctx.Err() == nil {
		id, m.queue = m.queue[0], m.queue[1:]
		if l := m.layers[id]; l != nil { // not forgotten meanwhile
			return id, l.upper, l.pid, true
		}
	}
	m.counting--
	return "", "", 0, false
}

func (m *layerMeter) done(id, upper string, usage *layerUsage, took time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.layers[id]
	if l == nil {
		return
	}
	l.upper, l.queued = upper, false
	l.due = time.Now().Add(pauseAfter(took))
	if usage != nil {
		l.last = usage
	}
}

// measure counts one layer; nil without an error when there is no directory.
func (m *layerMeter) measure(upper string) (*layerUsage, error) {
	if upper == "" {
		return nil, nil
	}
	usage, err := m.walk(m.ctx, upper)
	if err != nil {
		return nil, err
	}
	fs, err := filesystemOf(upper)
	if err != nil {
		return nil, err
	}
	return &layerUsage{diskUsage: usage, taken: time.Now(), mountpoint: dataDir(upper), filesystem: fs}, nil
}

// dataDir is the directory that the layers' filesystem is named by. Every
// driver with writable layers in directories keeps them three levels below it:
// DRIVER/LAYER/diff in the engine's data directory, snapshots/NUMBER/fs in a
// snapshotter's.
func dataDir(upper string) string {
	return filepath.Dir(filepath.Dir(filepath.Dir(upper)))
}

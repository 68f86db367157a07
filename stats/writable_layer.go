package stats

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/containerd/log"

	"github.com/criadapter/criadapter/internal/pace"
	"github.com/criadapter/criadapter/state"
)

// countWorkers is the number of layers that are counted at the same time, so that one huge layer does not hold up all
// others.
const countWorkers = 2

// countPace spaces the counts of one layer, because counting a million files must not keep the disk busy all day. A
// count has no deadline: a retry after an interrupted count would take as long.
var countPace = pace.Pace{Shortest: 10 * time.Second, Longest: 4 * time.Minute}

// layerUsage is one count of a container's writable layer.
type layerUsage struct {
	diskUsage
	taken time.Time
	// mountpoint identifies the filesystem as in ImageFsInfo: the data directory of the engine or of the snapshotter.
	mountpoint string
	filesystem filesystem
}

// layer is the state of a container's writable layer.
type layer struct {
	// upper is the layer's directory, empty until it is known.
	upper string
	pid   int
	last  *layerUsage
	// due is the time from which last is too old. queued says that a count is scheduled.
	due    time.Time
	queued bool
}

// layerMeter counts writable layers in the background, few at a time, and only on request. It is safe for concurrent
// use.
type layerMeter struct {
	proc   string
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup
	// walk counts a directory. It is countDir, except in tests.
	walk func(ctx context.Context, dir string) (diskUsage, error)

	mu     sync.Mutex
	layers map[string]*layer
	queue  []string
	// counting is the number of goroutines that work on the queue.
	counting int
	// uncounted are filesystems whose layers cannot be counted. Each is logged once.
	uncounted map[string]bool
}

func newLayerMeter(proc string) *layerMeter {
	// A measurement outlives the request that begins it: it ends with close.
	ctx, cancel := context.WithCancel(log.WithLogger(context.Background(), log.L.WithField("component", "stats")))
	return &layerMeter{proc: proc, ctx: ctx, cancel: cancel, walk: countDir, layers: map[string]*layer{},
		uncounted: map[string]bool{}}
}

// close cancels the running counts and waits for them.
func (m *layerMeter) close() {
	m.mu.Lock()
	m.cancel()
	m.mu.Unlock()
	m.work.Wait()
}

// get returns the last count of a container's layer, and schedules another count if it is too old. It never waits for
// the disk. It returns false before the first count, and if the layer has no directory of its own.
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

// forget drops the layers of containers that no longer exist.
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
			upper = m.find(id, pid)
		}
		usage, err := m.measure(upper)
		if err != nil && !os.IsNotExist(err) && m.ctx.Err() == nil {
			log.G(m.ctx).WithError(err).WithField("containerID", id).
				Warn("cannot measure writable layer, keeping the last count")
		}
		m.done(id, upper, usage, time.Since(start))
	}
}

// find finds the directory of a running container's writable layer among its mounts. It logs each filesystem without
// such a directory once.
func (m *layerMeter) find(id string, pid int) string {
	if content, err := os.ReadFile(filepath.Join(m.proc, strconv.Itoa(pid), "cgroup")); err != nil ||
		!strings.Contains(string(content), id) {
		return "" // it is the process of another container, or of the node
	}
	upper, filesystem := upperOf(m.proc, pid)
	if upper != "" || filesystem == "" {
		return upper
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.uncounted[filesystem] {
		m.uncounted[filesystem] = true
		log.G(m.ctx).WithField("filesystem", filesystem).Warn("the storage driver has no separate directory for " +
			"a container's writes: " +
			"writable layers are not counted, and no limit of ephemeral storage applies to them")
	}
	return ""
}

// pop takes the next layer from the queue. It returns false if the queue is empty or the meter is closed. The calling
// goroutine must then end.
func (m *layerMeter) pop() (id, upper string, pid int, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for len(m.queue) > 0 && m.ctx.Err() == nil {
		id, m.queue = m.queue[0], m.queue[1:]
		if l := m.layers[id]; l != nil { // unless it was forgotten meanwhile
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
	l.due = time.Now().Add(countPace.After(took))
	if usage != nil {
		l.last = usage
	}
}

// measure counts one layer. It returns nil without an error if there is no directory.
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

// dataDir is the directory that names the layers' filesystem. Every driver with writable layers in directories keeps
// them three levels below it: DRIVER/LAYER/diff in the engine's data directory, snapshots/NUMBER/fs in a snapshotter's.
func dataDir(upper string) string {
	return filepath.Dir(filepath.Dir(filepath.Dir(upper)))
}

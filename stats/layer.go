package stats

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/criadapter/criadapter/state"
)

const (
	// countEvery is the shortest time between two counts of a layer, and
	// countRest how many times longer than a count the pause after it is:
	// counting a million files must not keep the disk busy all day.
	countEvery = 10 * time.Second
	countRest  = 50
	// countTimeout ends a count on a filesystem that does not answer.
	countTimeout = 5 * time.Minute
)

// layerUsage is one count of a container's writable layer.
type layerUsage struct {
	diskUsage
	taken time.Time
	// mountpoint stands for the filesystem: the engine's data folder, or that of
	// the snapshotter, as in ImageFsInfo.
	mountpoint string
	filesystem filesystem
}

// layer is what is remembered of a container's writable layer.
type layer struct {
	// upper is its folder, empty until it is known.
	upper string
	pid   int
	last  *layerUsage
	// due is when last is too old, and queued says that a count is to come.
	due    time.Time
	queued bool
}

// layerMeter counts what containers have written, one layer at a time, in the
// background and only when somebody asks. It is safe for concurrent use.
type layerMeter struct {
	proc   string
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu     sync.Mutex
	layers map[string]*layer
	queue  []string
	// counting says that a goroutine works on the queue.
	counting bool
}

func newLayerMeter(proc string) *layerMeter {
	ctx, cancel := context.WithCancel(context.Background())
	return &layerMeter{proc: proc, ctx: ctx, cancel: cancel, layers: map[string]*layer{}}
}

// close ends a count under way and waits for its end.
func (m *layerMeter) close() {
	m.mu.Lock()
	m.cancel()
	m.mu.Unlock()
	m.work.Wait()
}

// get returns the last count of a container's layer, and has it counted again
// when that is too old. It never waits for the disk. It is false before the
// first count, and where the layer cannot be told from the image.
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
		if !m.counting {
			m.counting = true
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
		begun := time.Now()
		if upper == "" {
			upper = upperOf(m.proc, pid)
		}
		usage, err := m.measure(upper)
		if err != nil && !os.IsNotExist(err) && m.ctx.Err() == nil {
			logrus.WithError(err).WithField("container", id).Warn("could not count what a container has written, the last figures stay")
		}
		m.done(id, upper, usage, time.Since(begun))
	}
}

// pop takes the next layer from the queue; false when it is empty, or the meter
// is closed, and the goroutine must end.
func (m *layerMeter) pop() (id, upper string, pid int, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for len(m.queue) > 0 && m.ctx.Err() == nil {
		id, m.queue = m.queue[0], m.queue[1:]
		if l := m.layers[id]; l != nil { // not forgotten meanwhile
			return id, l.upper, l.pid, true
		}
	}
	m.counting = false
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
	l.due = time.Now().Add(max(countEvery, countRest*took))
	if usage != nil {
		l.last = usage
	}
}

// measure counts one layer; nil without an error when there is no folder.
func (m *layerMeter) measure(upper string) (*layerUsage, error) {
	if upper == "" {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(m.ctx, countTimeout)
	defer cancel()
	usage, err := countFolder(ctx, upper)
	if err != nil {
		return nil, err
	}
	fs, err := filesystemOf(upper)
	if err != nil {
		return nil, err
	}
	return &layerUsage{diskUsage: usage, taken: time.Now(), mountpoint: dataFolder(upper), filesystem: fs}, nil
}

// dataFolder is the folder that the layers' filesystem is named by. Every
// driver with writable layers in folders keeps them three levels below it:
// DRIVER/LAYER/diff in the engine's data folder, snapshots/NUMBER/fs in a
// snapshotter's.
func dataFolder(upper string) string {
	return filepath.Dir(filepath.Dir(filepath.Dir(upper)))
}

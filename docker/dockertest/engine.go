package dockertest

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/containerd/errdefs"

	"github.com/criadapter/criadapter/docker"
)

// Flavor is the Docker version whose behaviour the engine imitates.
type Flavor int

const (
	// Docker20 is Docker 20.10 (API 1.41). Image ids are config digests, the die event comes before a stop returns, and
	// lists show a dead container as running for a moment.
	Docker20 Flavor = iota
	// Docker29 is Docker 29 (API 1.52) with the containerd image store. Image ids are manifest digests, the die event
	// may come after the stop has returned, and lists never lag.
	Docker29
)

// Options are the options of New. The zero value is an empty Docker 20.10.
type Options struct {
	Flavor Flavor
	// Features are the features that the engine reports. Without an APIVersion they are DefaultFeatures(Flavor).
	Features docker.Features
	// Images are in the engine from the start.
	Images []Image
	// Registry are the images that can be pulled.
	Registry []Image
	// Programs describe the processes of containers and of commands in them. The first match counts.
	Programs []Program
	// EventLag is the time from a change until the list of Docker20 shows it, or until the die event of Docker29. Zero
	// means 20 ms, and a negative value means no lag.
	EventLag time.Duration
}

const defaultLag = 20 * time.Millisecond

// Engine is a docker.Engine in memory. Close it at the end of the test.
type Engine struct {
	flavor   Flavor
	features docker.Features
	lag      time.Duration
	log      *eventLog
	faults   *faults

	mu         sync.Mutex
	away       bool
	gone       chan struct{} // closed while away
	closed     bool
	programs   []Program
	containers map[string]*container
	execs      map[string]*execution
	images     []*Image
	registry   []Image
	nextPID    int
	nextID     int
	timers     map[*time.Timer]struct{}

	answered, timedOut atomic.Value // LastAnswer and LastTimeout, of type time.Time
}

var _ docker.Engine = (*Engine)(nil)

// firstPID is above the highest process id that Linux gives out (2^22).
const firstPID = 1<<22 + 1

// New returns a running engine.
func New(opts Options) *Engine {
	if opts.Features.APIVersion == "" {
		opts.Features = DefaultFeatures(opts.Flavor)
	}
	e := &Engine{
		flavor:     opts.Flavor,
		features:   opts.Features,
		lag:        max(cmp.Or(opts.EventLag, defaultLag), 0),
		log:        &eventLog{streams: make(map[*eventStream]struct{})},
		faults:     &faults{calls: make(map[string]int)},
		programs:   opts.Programs,
		containers: make(map[string]*container),
		execs:      make(map[string]*execution),
		registry:   opts.Registry,
		gone:       make(chan struct{}),
		nextPID:    firstPID,
		timers:     make(map[*time.Timer]struct{}),
	}
	for _, image := range opts.Images {
		e.images = append(e.images, image.completed(opts.Flavor))
	}
	return e
}

// DefaultFeatures returns the features of an ordinary engine of that flavor.
func DefaultFeatures(flavor Flavor) docker.Features {
	features := docker.Features{
		ServerVersion:    "20.10.24",
		APIVersion:       "1.41",
		OS:               "linux",
		Arch:             "amd64",
		CgroupVersion:    1,
		CgroupDriver:     "cgroupfs",
		StorageDriver:    "overlay2",
		Root:             "/var/lib/docker",
		Process:          os.Getpid(),
		Runtimes:         []string{"io.containerd.runc.v2", "runc"},
		DefaultRuntime:   "runc",
		Seccomp:          true,
		SwapLimit:        true,
		NegativeOOMScore: true,
		Limits: []docker.Limit{
			{Name: "core", Soft: docker.Unlimited, Hard: docker.Unlimited},
			{Name: "nofile", Soft: 1 << 20, Hard: 1 << 20},
			{Name: "stack", Soft: 8 << 20, Hard: docker.Unlimited},
		},
	}
	if flavor == Docker29 {
		features.ServerVersion = "29.0.0"
		features.APIVersion = "1.52"
		features.CgroupVersion = 2
		features.CgroupDriver = "systemd"
		features.StorageDriver = "overlayfs"
		features.ContainerdImageStore = true
		features.CDI = true
		features.RecursiveReadOnly = []string{"io.containerd.runc.v2", "runc"}
	}
	return features
}

// Close ends all processes and event streams. It publishes no events. The engine is away afterwards.
func (e *Engine) Close() {
	e.Away()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	for timer := range e.timers {
		timer.Stop()
	}
	clear(e.timers)
}

// Features implements docker.System.
func (e *Engine) Features(ctx context.Context) (docker.Features, error) {
	return e.features, e.call(ctx, "Features", "", func() error { return nil })
}

// Ping implements docker.System.
func (e *Engine) Ping(ctx context.Context) error {
	return e.call(ctx, "Ping", "", func() error { return nil })
}

// enter begins a call. It fails if the context has ended, if the engine is away, or if a fault is injected. The call
// passes its own error to leave, and returns the error of leave, which may come from a fault.
func (e *Engine) enter(ctx context.Context, call, object string) (leave func(error) error, err error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%s %s: %w", call, object, err)
	}
	fault := e.faults.next(call, object)
	if err := fault.before(ctx); err != nil {
		return nil, fmt.Errorf("%s %s: %w", call, object, err)
	}
	if e.isAway() {
		return nil, fmt.Errorf("%s %s: %w: the engine is away", call, object, errdefs.ErrUnavailable)
	}
	return func(err error) error {
		e.answered.Store(time.Now())
		if err == nil {
			err = fault.after()
		}
		if err != nil {
			return fmt.Errorf("%s %s: %w", call, object, err)
		}
		return nil
	}, nil
}

// call runs act as an engine call, see enter.
func (e *Engine) call(ctx context.Context, call, object string, act func() error) error {
	leave, err := e.enter(ctx, call, object)
	if err != nil {
		return err
	}
	return leave(act())
}

// ask is call for a request with an answer.
func ask[T any](ctx context.Context, e *Engine, call, object string, act func() (T, error)) (answer T, err error) {
	leave, err := e.enter(ctx, call, object)
	if err != nil {
		return answer, err
	}
	answer, err = act()
	return answer, leave(err)
}

// LastAnswer implements docker.System.
func (e *Engine) LastAnswer() time.Time { return load(&e.answered) }

// LastTimeout implements docker.System. NoteTimeout sets it.
func (e *Engine) LastTimeout() time.Time { return load(&e.timedOut) }

// NoteTimeout sets LastTimeout to now.
func (e *Engine) NoteTimeout() { e.timedOut.Store(time.Now()) }

func load(at *atomic.Value) time.Time {
	t, _ := at.Load().(time.Time)
	return t
}

func (e *Engine) isAway() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.away
}

// untilAway returns a channel that is closed when the engine goes away.
func (e *Engine) untilAway() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.gone
}

// later runs f after d, with the lock held, unless the engine is closed by then. The caller holds the lock.
func (e *Engine) later(d time.Duration, f func()) *time.Timer {
	if e.closed {
		return nil
	}
	var timer *time.Timer
	timer = time.AfterFunc(d, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.closed {
			return
		}
		delete(e.timers, timer)
		f()
	})
	e.timers[timer] = struct{}{}
	return timer
}

// cancel stops a timer that later started. The caller holds the lock.
func (e *Engine) cancel(timer *time.Timer) {
	if timer != nil {
		timer.Stop()
		delete(e.timers, timer)
	}
}

// newID returns an id in the engine's format. Each run has the same sequence of ids. The caller holds the lock.
func (e *Engine) newID() string {
	e.nextID++
	return hexDigest(fmt.Sprintf("id %d", e.nextID))
}

func (e *Engine) newPID() int {
	e.nextPID++
	return e.nextPID
}

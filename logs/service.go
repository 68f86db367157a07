package logs

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"

	"github.com/criadapter/criadapter/checkpoint"
)

// Options tune a Service. The zero value is right for production.
type Options struct {
	// batchPause is the least time from a copy to the next one that a change asks
	// for, so that a busy container costs few large writes: 5 ms when zero.
	batchPause time.Duration
	// lookPeriod is how long a follower waits before it looks by itself, where the
	// kernel has no inotify watch left: 500 ms when zero.
	lookPeriod time.Duration
	// retryPause is how long a follower waits after a failed write, on a full disk for example: 1 s when zero.
	retryPause time.Duration
	// sync makes a CRI log durable: its Sync when nil.
	sync func(*os.File) error
	// ObserveBatch, when not nil, is told of every batch that is written to a CRI
	// log: its size there in bytes, and how old its last entry was by then.
	ObserveBatch func(bytes int, lag time.Duration)
}

// Source is the output of one container.
type Source struct {
	// ContainerID is the key under which the follower is addressed.
	ContainerID string
	// Driver is the engine's log driver, DriverLocal or DriverJSONFile.
	Driver string
	// Path is the file that the engine writes to now. It need not exist yet, but the directory of its directory must.
	Path string
	// LogPath is where the CRI log goes. Empty: nothing is followed.
	LogPath string
	// Root is the pod's log directory. No link on the way from it to the log leads out of it. Empty, for a pod of which
	// nobody knows it: the log's own directory.
	Root string
	// Resume is the position to go on from, nil for none. The zero position is the beginning.
	Resume *checkpoint.LogPosition
	// Started says that the container was started before. If its position is lost, entries that are not younger than
	// the last one in the CRI log, or else in the one that was rotated last, are taken for written.
	Started bool
	// Ended says that it has ended, too. If neither its position nor an entry of its CRI log is there, all is taken for
	// written: who was there at its end has completed the log.
	Ended bool
	// Save, when not nil, persists a position. It is called by the follower's goroutine, must not call the Service, and
	// should return when the position is safe on disk. Its context carries the follower's logger.
	Save func(context.Context, checkpoint.LogPosition) error
}

// Service follows the output of any number of containers. All methods are safe for concurrent use.
type Service struct {
	options  Options
	watch    *watcher
	buffers  sync.Pool
	counters counters
	ctx      context.Context // ends at Close; followers live longer than the calls that start them
	cancel   context.CancelFunc
	group    sync.WaitGroup

	mu        sync.Mutex
	closed    bool
	followers map[string]*follower
}

// New makes a Service without followers. Close ends it.
func New(options Options) *Service {
	if options.batchPause == 0 {
		options.batchPause = 5 * time.Millisecond
	}
	if options.lookPeriod == 0 {
		options.lookPeriod = 500 * time.Millisecond
	}
	if options.retryPause == 0 {
		options.retryPause = time.Second
	}
	if options.sync == nil {
		options.sync = (*os.File).Sync
	}
	if options.ObserveBatch == nil {
		options.ObserveBatch = func(int, time.Duration) {}
	}
	background := log.WithLogger(context.Background(), log.L.WithField("component", "logs"))
	s := &Service{options: options, watch: &watcher{log: log.G(background)}, followers: map[string]*follower{}}
	s.buffers.New = func() any { return newBuffers() }
	s.ctx, s.cancel = context.WithCancel(background)
	return s
}

// Start begins to follow a container and makes its CRI log. It waits for no output, but where the log of a run of the
// container that has ended is still being completed, for that. It fails with ErrAlreadyExists while the container is
// followed, ErrFailedPrecondition when the log path is taken by something that is not a plain file, ErrNotImplemented
// for a driver that cannot be followed, and fs.ErrNotExist when the engine has no directory for the container.
func (s *Service) Start(ctx context.Context, source Source) error {
	if source.LogPath == "" {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	format, err := formatOf(source.Driver)
	if err != nil {
		return fmt.Errorf("container %s: %w", source.ContainerID, err)
	}
	f := newFollower(source, format, s)
	if err := s.add(ctx, f); err != nil {
		return err
	}
	if err := f.open(); err != nil {
		close(f.done)
		s.forget(f)
		s.group.Done()
		return fmt.Errorf("container %s: %w", source.ContainerID, err)
	}
	go func() {
		defer s.group.Done()
		f.run(s.ctx)
		if f.err == nil {
			s.forget(f)
		} // otherwise Drain has something to tell
	}()
	return nil
}

// add makes a follower known and counts it for Close, when the one of an earlier run of its container has ended.
func (s *Service) add(ctx context.Context, f *follower) error {
	for {
		old, err := s.tryAdd(f)
		if err != nil || old == nil {
			return err
		}
		if !closed(old.drain) {
			return fmt.Errorf("the output of container %s is already followed: %w", f.source.ContainerID, errdefs.ErrAlreadyExists)
		}
		select {
		case <-old.done:
		case <-ctx.Done():
			return fmt.Errorf("the output of an earlier run of container %s is not complete yet: %w", f.source.ContainerID, ctx.Err())
		}
	}
}

// tryAdd adds a follower, or returns the one that the container has.
func (s *Service) tryAdd(f *follower) (old *follower, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, fmt.Errorf("the log service is closed: %w", errdefs.ErrUnavailable)
	}
	id := f.source.ContainerID
	if old, ok := s.followers[id]; ok && !closed(old.done) {
		return old, nil
	}
	s.followers[id] = f
	s.group.Add(1)
	return nil, nil
}

// forget drops a follower, unless another one has taken its place.
func (s *Service) forget(f *follower) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.followers[f.source.ContainerID] == f {
		delete(s.followers, f.source.ContainerID)
	}
}

// Finish lets the follower of a container that has ended complete the log and end, without waiting for that.
func (s *Service) Finish(containerID string) {
	if f := s.follower(containerID); f != nil {
		f.askDrain()
	}
}

// Drain waits until everything that the engine has written for the container is in the CRI log, and ends its follower.
// Call it when the container has exited. It returns why the follower failed, if it did, and nil when there is none.
// When ctx ends first, or the log cannot be written for now, Drain returns an error that says so, and the follower
// completes the log when it can, as long as the engine has the container.
func (s *Service) Drain(ctx context.Context, containerID string) error {
	f := s.follower(containerID)
	if f == nil {
		return nil
	}
	f.askDrain()
	err := f.result(ctx)
	if closed(f.done) {
		s.forget(f)
	}
	if err != nil {
		return fmt.Errorf("the output of container %s: %w", containerID, err)
	}
	return nil
}

// Reopen lets the container's next entries go to a new file at its log path, after the kubelet has renamed the old one.
// When it returns nil the new file exists and the old one is written no more. It fails with ErrFailedPrecondition when
// the container is not followed.
func (s *Service) Reopen(ctx context.Context, containerID string) error {
	notFollowed := fmt.Errorf("the output of container %s is not being written, it does not run: %w", containerID, errdefs.ErrFailedPrecondition)
	f := s.follower(containerID)
	if f == nil {
		return notFollowed
	}
	answer := make(chan error, 1)
	select {
	case f.reopen <- answer:
	case <-f.done:
		return notFollowed
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-answer:
		return err
	case <-ctx.Done(): // a disk hangs
		return ctx.Err()
	}
}

// Unwatched is how many followers look by themselves, because the kernel has no inotify watch left for them.
func (s *Service) Unwatched() int { return int(s.watch.lacking.Load()) }

// Close ends all followers where they are and saves their positions. It may be called more than once. Those that a disk
// holds up longer than closeTimeout are left behind.
func (s *Service) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	ended := make(chan struct{})
	go func() {
		s.group.Wait()
		close(ended)
	}()
	timeout := time.NewTimer(closeTimeout)
	defer timeout.Stop()
	select {
	case <-ended:
	case <-timeout.C:
		log.G(s.ctx).Warn("disk does not answer, container logs are completed after the next start")
	}
	s.watch.close()
}

// closeTimeout is how long Close waits for writes that are under way.
const closeTimeout = 10 * time.Second

func (s *Service) follower(containerID string) *follower {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.followers[containerID]
}

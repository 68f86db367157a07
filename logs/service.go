package logs

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"

	"github.com/criadapter/criadapter/checkpoint"
)

// Options configure a Service. The zero value is right for production.
type Options struct {
	// batchPause is the time between a change in the engine's logs and the wake-up of followers, 20 ms if zero. Thus
	// many lines cost few wake-ups, and few but large writes.
	batchPause time.Duration
	// lookPeriod is the time between two checks of a directory without an inotify watch, 500 ms if zero.
	lookPeriod time.Duration
	// retryPause is the pause after a failed write, on a full disk for example, 1 s if zero.
	retryPause time.Duration
	// sync makes a CRI log durable. It is the file's Sync if nil.
	sync func(*os.File) error
	// ObserveBatch is called for every batch written to a CRI log, with its size in bytes and the age of its last
	// entry. It may be nil.
	ObserveBatch func(bytes int, lag time.Duration)
}

// Source is the output of one container.
type Source struct {
	// ContainerID is the follower's key.
	ContainerID string
	// Driver is the engine's log driver, DriverLocal or DriverJSONFile.
	Driver string
	// Path is the file that the engine writes to. It and its directory need not exist yet, but the parent directory
	// must.
	Path string
	// LogPath is the path of the CRI log. An empty path means that there is no log.
	LogPath string
	// Root is the pod's log directory. No link between it and the log may lead out of it. Empty means that the pod's
	// log directory is unknown. Then the log's own directory counts as the root.
	Root string
	// Resume is the position to continue from, nil for none. The zero position is the beginning.
	Resume *checkpoint.LogPosition
	// Started says that the container was started before. If its position is lost, the follower looks at the last entry
	// of the CRI log or of the newest rotated one. Output that is not younger than that entry counts as written.
	Started bool
	// Ended says that the container has ended, too. Without a position and an entry in its CRI log, all its output
	// counts as written: an earlier follower completed the log when the container ended.
	Ended bool
	// Save persists a position. The follower's goroutine calls it. It must not call the Service, and should return when
	// the position is safe on disk. Its context has the follower's logger. It may be nil.
	Save func(context.Context, checkpoint.LogPosition) error
}

// Service follows the output of containers. All methods are safe for concurrent use.
type Service struct {
	options  Options
	watch    *watcher
	buffers  sync.Pool
	counters counters
	ctx      context.Context // ends at Close; followers outlive the calls of Start
	cancel   context.CancelFunc
	group    sync.WaitGroup

	mu        sync.Mutex
	closed    bool
	followers map[string]*follower
}

// New returns a Service without followers. The caller must Close it.
func New(options Options) *Service {
	options.batchPause = cmp.Or(options.batchPause, 20*time.Millisecond)
	options.lookPeriod = cmp.Or(options.lookPeriod, 500*time.Millisecond)
	options.retryPause = cmp.Or(options.retryPause, time.Second)
	if options.sync == nil {
		options.sync = (*os.File).Sync
	}
	if options.ObserveBatch == nil {
		options.ObserveBatch = func(int, time.Duration) {}
	}
	// Followers of logs outlive the requests that start them.
	background := log.WithLogger(context.Background(), log.L.WithField("component", "logs"))
	s := &Service{options: options, followers: map[string]*follower{}}
	s.buffers.New = func() any { return &buffers{in: make([]byte, batchSize), out: make([]byte, 0, 2*batchSize)} }
	s.ctx, s.cancel = context.WithCancel(background)
	s.watch = &watcher{ctx: s.ctx, log: log.G(background), pause: options.batchPause}
	return s
}

// Start begins to follow a container and creates its CRI log. It does not wait for output. If the log of an earlier run
// of the container is still being completed, Start waits until the log is complete. It fails with
//
//   - ErrAlreadyExists while the container is followed,
//   - ErrFailedPrecondition if anything but a plain file is at the log path, another process writes the log, or a link
//     leads out of Source.Root,
//   - ErrNotImplemented for a driver without readable files,
//   - ErrUnavailable after Close,
//   - fs.ErrNotExist if the engine has no directory for the container.
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
		} // otherwise Drain returns its error
	}()
	return nil
}

// add adds a follower and counts it for Close, after the follower of an earlier run of its container has ended.
func (s *Service) add(ctx context.Context, f *follower) error {
	for {
		old, err := s.tryAdd(f)
		if err != nil || old == nil {
			return err
		}
		if !closed(old.drain) {
			return fmt.Errorf("the output of container %s is already followed: %w", f.source.ContainerID,
				errdefs.ErrAlreadyExists)
		}
		select {
		case <-old.done:
		case <-ctx.Done():
			return fmt.Errorf("the output of an earlier run of container %s is not complete yet: %w",
				f.source.ContainerID, ctx.Err())
		}
	}
}

// tryAdd adds a follower, or returns the container's present one.
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

// forget drops a follower, unless another one has replaced it.
func (s *Service) forget(f *follower) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.followers[f.source.ContainerID] == f {
		delete(s.followers, f.source.ContainerID)
	}
}

// Finish makes the follower of an ended container complete the log and end. It does not wait.
func (s *Service) Finish(containerID string) {
	if f := s.follower(containerID); f != nil {
		f.askDrain()
	}
}

// Drain waits until the CRI log has all output that the engine wrote for the container, and ends its follower. Call it
// after the container has exited. It returns the follower's error, and nil without a follower. It returns an error if
// ctx ends first or the log cannot be written. Then the follower completes the log later, while the engine has the
// container.
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

// Reopen continues the container's log in a new file at its log path, after the kubelet has renamed the old one. When
// it returns nil, the new file exists and the old one gets no more output. A log that was not renamed stays in use.
// Reopen fails with ErrFailedPrecondition if the container is not followed, and with the follower's error, too, if that
// error ended the follower.
func (s *Service) Reopen(ctx context.Context, containerID string) error {
	notFollowed := fmt.Errorf("the output of container %s is not being written: %w", containerID,
		errdefs.ErrFailedPrecondition)
	f := s.follower(containerID)
	if f == nil {
		return notFollowed
	}
	answer := make(chan error, 1)
	select {
	case f.reopen <- answer:
	case <-f.done:
		if f.err != nil {
			return fmt.Errorf("the output of container %s is not being written: %w: %w", containerID, f.err,
				errdefs.ErrFailedPrecondition)
		}
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

// Unwatched is the number of followers without an inotify watch, which poll instead.
func (s *Service) Unwatched() int { return int(s.watch.lacking.Load()) }

// Close ends all followers and saves their positions. It may be called more than once. It does not wait longer than
// closeTimeout for followers that a disk blocks.
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

// closeTimeout bounds the wait of Close for writes under way.
const closeTimeout = 10 * time.Second

func (s *Service) follower(containerID string) *follower {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.followers[containerID]
}

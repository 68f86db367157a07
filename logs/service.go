package logs

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/containerd/errdefs"

	"github.com/criadapter/criadapter/checkpoint"
)

// Options tune a Service. The zero value is right for production.
type Options struct {
	// BatchPause is how long a follower rests after each copy, so that a busy
	// container costs few large writes: 5 ms when zero.
	BatchPause time.Duration
	// RetryPause is how long a follower waits after a failed write, on a full
	// disk for example: 1 s when zero.
	RetryPause time.Duration
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
	// Path is the file that the engine writes to now. It need not exist yet,
	// but the folder of its folder must.
	Path string
	// LogPath is where the CRI log goes. Empty: nothing is followed.
	LogPath string
	// Resume is the position to go on from, nil for none. The zero position is
	// the beginning.
	Resume *checkpoint.LogPosition
	// Begun says that the container was started before. If its position is
	// lost, entries that are not younger than the last one in the CRI log, or
	// else in the one that was rotated last, are taken for written.
	Begun bool
	// Ended says that it has ended, too. If neither its position nor an entry
	// of its CRI log is there, all is taken for written: who was there at its end
	// has completed the log.
	Ended bool
	// Save, when not nil, persists a position. It is called by the follower's
	// goroutine, must not call the Service, and should return when the position
	// is safe on disk.
	Save func(checkpoint.LogPosition) error
}

// Service follows the output of any number of containers. All methods are safe
// for concurrent use.
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
func New(options Options) (*Service, error) {
	if options.BatchPause == 0 {
		options.BatchPause = 5 * time.Millisecond
	}
	if options.RetryPause == 0 {
		options.RetryPause = time.Second
	}
	if options.ObserveBatch == nil {
		options.ObserveBatch = func(int, time.Duration) {}
	}
	watch, err := newWatcher()
	if err != nil {
		return nil, err
	}
	s := &Service{options: options, watch: watch, followers: map[string]*follower{}}
	s.buffers.New = func() any { return newBuffers() }
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s, nil
}

// Start begins to follow a container and makes its CRI log. It waits for no
// output. It fails with ErrAlreadyExists while the container is followed,
// ErrFailedPrecondition when the log path is taken by something that is not a
// plain file, ErrNotImplemented for a driver that cannot be followed, and
// fs.ErrNotExist when the engine has no folder for the container.
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
	if err := s.add(f); err != nil {
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

// add makes a follower known and counts it for Close.
func (s *Service) add(f *follower) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return fmt.Errorf("the log service is closed: %w", errdefs.ErrUnavailable)
	}
	id := f.source.ContainerID
	if old, ok := s.followers[id]; ok && !closed(old.done) {
		return fmt.Errorf("the output of container %s is already followed: %w", id, errdefs.ErrAlreadyExists)
	}
	s.followers[id] = f
	s.group.Add(1)
	return nil
}

// forget drops a follower, unless another one has taken its place.
func (s *Service) forget(f *follower) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.followers[f.source.ContainerID] == f {
		delete(s.followers, f.source.ContainerID)
	}
}

// Drain waits until everything that the engine has written for the container
// is in the CRI log, and ends its follower. Call it when the container has
// exited. It returns why the follower failed, if it did, and nil when there is
// none. When ctx ends first, Drain returns its error and the follower finishes
// by itself.
func (s *Service) Drain(ctx context.Context, containerID string) error {
	f := s.follower(containerID)
	if f == nil {
		return nil
	}
	f.askDrain()
	select {
	case <-f.done:
	case <-ctx.Done():
		return fmt.Errorf("the output of container %s is not complete yet: %w", containerID, ctx.Err())
	}
	s.forget(f)
	if f.err != nil {
		return fmt.Errorf("the output of container %s: %w", containerID, f.err)
	}
	return nil
}

// Reopen lets the container's next entries go to a new file at its log path,
// after the kubelet has renamed the old one. When it returns nil the new file
// exists and the old one is written no more. It fails with
// ErrFailedPrecondition when the container is not followed.
func (s *Service) Reopen(ctx context.Context, containerID string) error {
	notFollowed := fmt.Errorf("the output of container %s is not being written, it does not run: %w", containerID, errdefs.ErrFailedPrecondition)
	f := s.follower(containerID)
	if f == nil {
		return notFollowed
	}
	answer := make(chan error, 1)
	select {
	case f.reopen <- answer:
		return <-answer // the follower answers at once
	case <-f.done:
		return notFollowed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close ends all followers where they are and saves their positions. It may be
// called more than once.
func (s *Service) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.group.Wait()
	s.watch.close()
}

func (s *Service) follower(containerID string) *follower {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.followers[containerID]
}

package image

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/distribution/reference"
	"github.com/moby/moby/api/types/container"

	"github.com/criadapter/criadapter/docker"
)

// DefaultPullProgressDeadline is how long a pull may go without a sign of life
// from the registry when Options names no other time, the default of
// cri-dockerd's --image-pull-progress-deadline.
const DefaultPullProgressDeadline = time.Minute

// Options are the options of New. Engine is required.
type Options struct {
	// Engine holds the images.
	Engine docker.Engine
	// SandboxImage is the reference of the image that sandboxes run
	// (--pod-infra-container-image), empty for the built-in one.
	SandboxImage string
	// PullProgressDeadline is how long a pull may go without progress before it
	// is cancelled, 0 for DefaultPullProgressDeadline.
	PullProgressDeadline time.Duration
	// Mounted, when not nil, returns the ids of the images that a container of the
	// engine's list has mounted: they are in use like the one it was made from.
	Mounted func(container.Summary) []string
	// ObservePull, when not nil, is called at the beginning of every transfer of
	// an image from a registry, for metrics and traces. The transfer uses the
	// context that it returns, and its error goes to the function that it returns.
	ObservePull func(ctx context.Context) (context.Context, func(error))
}

// Service is the image service of one engine. All methods are safe for
// concurrent use.
type Service struct {
	engine           docker.Engine
	progressDeadline time.Duration
	mounted          func(container.Summary) []string
	observePull      func(ctx context.Context) (context.Context, func(error))
	pulls            pulls
	removing         turn
	facts            facts
	sandbox          *sandboxImage
	usage            *usageMeter
}

// New returns the image service of an engine, which need not be up yet. It
// fails with ErrInvalidArgument when the sandbox image is not a valid
// reference. Close ends the service.
func New(opts Options) (*Service, error) {
	sandbox, err := newSandboxImage(opts.SandboxImage)
	if err != nil {
		return nil, err
	}
	deadline := opts.PullProgressDeadline
	if deadline == 0 {
		deadline = DefaultPullProgressDeadline
	}
	if deadline < 0 {
		return nil, fmt.Errorf("image-pull-progress-deadline must not be negative: %w", errdefs.ErrInvalidArgument)
	}
	if opts.ObservePull == nil {
		opts.ObservePull = func(ctx context.Context) (context.Context, func(error)) { return ctx, func(error) {} }
	}
	if opts.Mounted == nil {
		opts.Mounted = func(container.Summary) []string { return nil }
	}
	return &Service{
		engine:           opts.Engine,
		mounted:          opts.Mounted,
		observePull:      opts.ObservePull,
		progressDeadline: deadline,
		removing:         newTurn(),
		sandbox:          sandbox,
		usage:            newUsageMeter(),
	}, nil
}

// Close ends what the service does in the background and waits for it. The
// service must not be used afterwards.
func (s *Service) Close() { s.usage.close() }

// turn is a lock that can be waited for with a context.
type turn chan struct{}

func newTurn() turn { return make(turn, 1) }

// take waits for the turn, or for the end of ctx.
func (t turn) take(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t turn) give() { <-t }

// facts remembers what never changes of an image id, so that a list does not
// inspect every image and a container's image id needs no call to the engine.
// The zero value is ready to use.
type facts struct {
	mu sync.Mutex
	// users is the image's default "user[:group]" by image id. An id is in the
	// map only while the image is known to be present.
	users map[string]string
}

func (f *facts) put(id, user string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.users == nil {
		f.users = make(map[string]string)
	}
	f.users[id] = user
}

func (f *facts) user(id string) (string, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	user, ok := f.users[id]
	return user, ok
}

func (f *facts) forget(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.users, id)
}

// keep forgets every id that is not among ids.
func (f *facts) keep(ids map[string]bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id := range f.users {
		if !ids[id] {
			delete(f.users, id)
		}
	}
}

// sameReference reports whether a and b name the same image: "busybox" and
// "docker.io/library/busybox:latest" do.
func sameReference(a, b string) bool {
	if a == b {
		return true
	}
	na, err := reference.ParseDockerRef(a)
	if err != nil {
		return false
	}
	nb, err := reference.ParseDockerRef(b)
	return err == nil && na.String() == nb.String()
}

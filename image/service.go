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

// defaultPullProgressDeadline is how long a pull may go without a sign of life
// from the registry when Options names no other time, the default of
// cri-dockerd's --image-pull-progress-deadline.
const defaultPullProgressDeadline = time.Minute

// Options are the options of New. Engine is required.
type Options struct {
	// Engine holds the images.
	Engine docker.Engine
	// SandboxImage is the reference of the image that sandboxes run
	// (--pod-infra-container-image), empty for the built-in one.
	SandboxImage string
	// CredentialsFile is a Docker configuration file (config.json) with the node's
	// registry credentials, for SandboxImage alone. It need not exist, and is read
	// at each pull; empty for none.
	CredentialsFile string
	// PullProgressDeadline is how long a pull may go without progress before it
	// is cancelled, 0 for defaultPullProgressDeadline. While its layers wait behind
	// those of other pulls of the service, or are unpacked by an engine that does
	// not report that, it may be sixty times as long.
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
	engine          docker.Engine
	credentialsFile string
	watch           *pullWatch
	mounted         func(container.Summary) []string
	observePull     func(ctx context.Context) (context.Context, func(error))
	pulls           pulls
	removing        turn
	facts           facts
	sandbox         *sandboxImage
	usage           *usageMeter
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
		deadline = defaultPullProgressDeadline
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
		engine:          opts.Engine,
		mounted:         opts.Mounted,
		observePull:     opts.ObservePull,
		credentialsFile: opts.CredentialsFile,
		watch:           newPullWatch(deadline),
		removing:        newTurn(),
		sandbox:         sandbox,
		usage:           newUsageMeter(),
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

// fact is what is remembered of an image.
type fact struct {
	// user is the image's default "user[:group]".
	user string
	// digests are its names by digest, as the engine told them last.
	digests []string
}

// facts remembers images by their ids, so that a list does not inspect every
// image and the making of a container needs no call to the engine for its
// image. The zero value is ready to use.
type facts struct {
	mu sync.Mutex
	// known has an id only while the image is known to be present.
	known map[string]fact
	// failed has the ids of images that are present and that the engine cannot inspect.
	failed map[string]bool
}

func (f *facts) put(id string, of fact) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.known == nil {
		f.known = make(map[string]fact)
	}
	f.known[id] = of
	delete(f.failed, id)
}

// fail notes that the engine cannot inspect an image, and reports whether that is new.
func (f *facts) fail(id string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failed[id] {
		return false
	}
	if f.failed == nil {
		f.failed = make(map[string]bool)
	}
	f.failed[id] = true
	return true
}

// user returns an image's default "user[:group]", empty where the engine cannot
// inspect it; false when the image is not known to be present.
func (f *facts) user(id string) (string, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	known, ok := f.known[id]
	return known.user, ok || f.failed[id]
}

func (f *facts) of(id string) (fact, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	known, ok := f.known[id]
	return known, ok
}

// rename notes the digests of an image that is known.
func (f *facts) rename(id string, digests []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if known, ok := f.known[id]; ok {
		known.digests = digests
		f.known[id] = known
	}
}

func (f *facts) forget(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.known, id)
	delete(f.failed, id)
}

// keep forgets every id that is not among ids.
func (f *facts) keep(ids map[string]bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id := range f.known {
		if !ids[id] {
			delete(f.known, id)
		}
	}
	for id := range f.failed {
		if !ids[id] {
			delete(f.failed, id)
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

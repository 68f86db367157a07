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

// defaultPullProgressDeadline is the default of Options.PullProgressDeadline, like cri-dockerd's
// --image-pull-progress-deadline.
const defaultPullProgressDeadline = time.Minute

// Options are the options of New. Engine is required.
type Options struct {
	// Engine has the images.
	Engine docker.Engine
	// SandboxImage is the reference of the sandbox image (--pod-infra-container-image), empty for the built-in one.
	SandboxImage string
	// CredentialsFile is a Docker configuration file (config.json) with the node's registry credentials, for
	// SandboxImage alone. It need not exist, and is read at each pull. It may be empty.
	CredentialsFile string
	// PullProgressDeadline is the time without progress after which a pull is cancelled, 0 for
	// defaultPullProgressDeadline. It is sixty times as long while the layers wait behind other pulls of the service,
	// or an engine unpacks them silently.
	PullProgressDeadline time.Duration
	// Mounted returns the ids of the images that a container of the engine's list has mounted. They are in use like the
	// container's own image. It may be nil.
	Mounted func(container.Summary) []string
	// ObservePull is called at the beginning of every transfer from a registry, for metrics and traces. The transfer
	// uses the returned context and passes its error to the returned function. It may be nil.
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

// New returns the image service of an engine, which need not be up yet. It fails with ErrInvalidArgument if the sandbox
// image is not a valid reference. The caller must Close it.
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

// Close ends the service's background work and waits for it. The service must not be used afterwards.
func (s *Service) Close() { s.usage.close() }

// turn is a lock whose wait ends with a context.
type turn chan struct{}

func newTurn() turn { return make(turn, 1) }

// take waits for the lock, or for the end of ctx.
func (t turn) take(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t turn) give() { <-t }

// fact is the cached information about an image.
type fact struct {
	// user is the image's default "user[:group]".
	user string
	// digests are its names by digest in the engine's last answer.
	digests []string
}

// facts caches images by id. So a list does not inspect every image, and the creation of a container needs no call for
// its image. The zero value is ready to use.
type facts struct {
	mu sync.Mutex
	// known has the ids of images that are present.
	known map[string]fact
	// failed has the ids of present images that the engine cannot inspect.
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

// fail records that the engine cannot inspect an image, and reports whether that is new.
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

// user returns an image's default "user[:group]", empty if the engine cannot inspect the image. It returns false for an
// id that is not cached.
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

// rename records the digests of a cached image.
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

// keep drops every id that is not in ids.
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

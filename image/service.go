package image

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/sys/mountinfo"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/image/trust"
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
	// Kept are the directories of criadapter with content of images: artifacts, and the files of image volumes. FsInfo
	// counts them as images. A file that is linked into several of them counts once.
	Kept []string
	// Mounted returns the ids or names of the images that a listed container of the engine has mounted. They are in use
	// like the container's own image. It may be nil.
	Mounted func(container.Summary) []string
	// PodImages returns the images of all sandbox containers, by id. They are pinned like the sandbox image itself.
	// They can differ from SandboxImage: after an upgrade, and in pods that another CRI server made. The kubelet does
	// not list sandbox containers. Without the pin, its image garbage collection would try to remove these images and
	// fail, because Remove refuses an image in use. It may be nil.
	PodImages func() map[string]bool
	// Foreign reports whether a listed container of the engine belongs to no pod. Images that such a container uses
	// are pinned, too. It may be nil, and then Run does not list containers.
	Foreign func(container.Summary) bool
	// Trust decides which images may be pulled and used for containers. nil allows all images.
	Trust *trust.Verifier
	// ObservePull is called at the beginning of every transfer from a registry, for metrics and traces. The transfer
	// uses the returned context and passes its error to the returned function. It may be nil.
	ObservePull func(ctx context.Context) (context.Context, func(error))
}

// Service is the image service of one engine. All methods are safe for concurrent use. The package comment has their
// guarantees.
type Service struct {
	engine          docker.Engine
	credentialsFile string
	watch           *pullWatch
	kept            []string
	mounted         func(container.Summary) []string
	podImages       func() map[string]bool
	foreign         func(container.Summary) bool
	trust           *trust.Verifier
	observePull     func(ctx context.Context) (context.Context, func(error))
	pulls           pulls
	// transfers is locked for reading by each transfer. sweepSignatures locks it for writing, or does nothing while a
	// transfer runs.
	transfers sync.RWMutex
	removing  turn
	images    *cache
	sandbox   *sandboxImage
	usage     *usageMeter
	lastPlace atomic.Pointer[storage]
	// connection is the number of calls of Relist.
	connection atomic.Uint64
	// seenRoot is nil before a mount has shown containerd's data directory.
	seenRoot atomic.Pointer[seenRoot]
	// overlays lists the overlay mounts. Tests replace it.
	overlays func() ([]*mountinfo.Info, error)
	// foreignImages are the images of foreign containers, by id or name. It is nil before the first list.
	foreignImages atomic.Pointer[map[string]bool]
	// foreignAsked holds a token after ForeignChanged, until the next list.
	foreignAsked chan struct{}
}

// New returns the image service of an engine, which need not be up yet. Its cache follows the engine while Run runs.
// New fails with ErrInvalidArgument if the sandbox image is not a valid reference. The caller must Close it.
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
	if opts.PodImages == nil {
		opts.PodImages = func() map[string]bool { return nil }
	}
	return &Service{
		engine:          opts.Engine,
		kept:            opts.Kept,
		mounted:         opts.Mounted,
		podImages:       opts.PodImages,
		foreign:         opts.Foreign,
		foreignAsked:    make(chan struct{}, 1),
		trust:           opts.Trust,
		observePull:     opts.ObservePull,
		credentialsFile: opts.CredentialsFile,
		watch:           newPullWatch(deadline),
		removing:        newTurn(),
		images:          newCache(opts.Engine),
		sandbox:         sandbox,
		usage:           newUsageMeter(),
		overlays:        overlayMounts,
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

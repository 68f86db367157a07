package cri

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/containerd/log"
	"k8s.io/apimachinery/pkg/util/wait"
	internalapi "k8s.io/cri-api/pkg/apis"
	cri "k8s.io/cri-client/pkg"
)

// attemptTimeout bounds one attempt to reach the runtime.
const attemptTimeout = 10 * time.Second

// retryBackoff is the pause between two attempts to reach the runtime, or to find it ready.
var retryBackoff = wait.Backoff{
	Duration: 100 * time.Millisecond, Factor: 2, Jitter: 0.1, Steps: math.MaxInt, Cap: 5 * time.Second,
}

// Options say where the runtime is. Endpoint and Owner are required.
type Options struct {
	// Endpoint is the address of the runtime service, unix:///….
	Endpoint string
	// ImageEndpoint is the address of the image service. Empty means Endpoint.
	ImageEndpoint string
	// Timeout bounds each call; RunPodSandbox gets twice as long. Zero means two minutes, as the kubelet's
	// --runtime-request-timeout.
	Timeout time.Duration
	// Owner is the value of model.LabelOwner: pods of others are left out.
	Owner string
}

// Runtime is a connection to a runtime. It is safe for concurrent use, and calls work again by themselves when the
// runtime comes back.
type Runtime struct {
	internalapi.RuntimeService
	// Images is the runtime's image service.
	Images internalapi.ImageManagerService
	// Name is what the runtime calls itself: the scheme of container ids in a pod's status.
	Name string
	// Version is the runtime's own version.
	Version string

	owner string
}

// Connect waits until the runtime answers, as long as ctx lasts.
func Connect(ctx context.Context, opts Options) (*Runtime, error) {
	if opts.Timeout == 0 {
		opts.Timeout = 2 * time.Minute
	}
	if opts.ImageEndpoint == "" {
		opts.ImageEndpoint = opts.Endpoint
	}
	var r *Runtime
	var failed error
	err := retryBackoff.DelayFunc().Until(ctx, true, true, func(ctx context.Context) (bool, error) {
		if r, failed = connect(ctx, opts); failed != nil {
			log.G(ctx).WithError(failed).WithField("endpoint", opts.Endpoint).Info("waiting for the container runtime")
		}
		return failed == nil, nil
	})
	if err != nil {
		return nil, errors.Join(err, failed)
	}
	return r, nil
}

func connect(ctx context.Context, opts Options) (_ *Runtime, err error) {
	// The client keeps its own time limit per call and checks the connection once, bounded by attemptTimeout.
	attempt, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	runtime, err := cri.NewRemoteRuntimeServiceBuilder().WithEndpoint(opts.Endpoint).
		WithConnectionTimeout(opts.Timeout).WithTracerProvider(nil).WithUseStreaming(true).Build(attempt)
	if err != nil {
		return nil, fmt.Errorf("runtime service: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, runtime.Close(ctx))
		}
	}()
	images, err := cri.NewRemoteImageServiceBuilder().WithEndpoint(opts.ImageEndpoint).
		WithConnectionTimeout(opts.Timeout).WithTracerProvider(nil).WithUseStreaming(true).Build(attempt)
	if err != nil {
		return nil, fmt.Errorf("image service: %w", err)
	}
	version, err := runtime.Version(attempt, "v1")
	if err != nil {
		return nil, errors.Join(err, images.Close(ctx))
	}
	return &Runtime{
		RuntimeService: runtime, Images: images, owner: opts.Owner,
		Name: version.GetRuntimeName(), Version: version.GetRuntimeVersion(),
	}, nil
}

// New wraps services that are connected already, for tests and for callers with a connection of their own.
func New(runtime internalapi.RuntimeService, images internalapi.ImageManagerService, owner string) *Runtime {
	return &Runtime{RuntimeService: runtime, Images: images, Name: "test", Version: "0", owner: owner}
}

// Close hangs up.
func (r *Runtime) Close(ctx context.Context) error {
	return errors.Join(r.RuntimeService.Close(ctx), r.Images.Close(ctx))
}

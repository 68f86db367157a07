package cri

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sirupsen/logrus"
	internalapi "k8s.io/cri-api/pkg/apis"
	cri "k8s.io/cri-client/pkg"
)

const (
	// firstRetry and lastRetry bound the pause between two attempts to reach the runtime.
	firstRetry = 100 * time.Millisecond
	lastRetry  = 5 * time.Second
	// attemptTimeout bounds one attempt.
	attemptTimeout = 10 * time.Second
)

// Options say where the runtime is. Endpoint and Owner are required.
type Options struct {
	// Endpoint is the address of the runtime service, unix:///….
	Endpoint string
	// ImageEndpoint is the address of the image service. Empty means Endpoint.
	ImageEndpoint string
	// Timeout bounds each call; RunPodSandbox gets twice as long. Zero means two minutes, as the kubelet's
	// --runtime-request-timeout.
	Timeout time.Duration
	// Owner is the value of model.LabelOwner: pods of others are not seen.
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
	for pause := firstRetry; ; pause = min(2*pause, lastRetry) {
		r, err := connect(ctx, opts)
		if err == nil {
			return r, nil
		}
		logrus.WithError(err).WithField("endpoint", opts.Endpoint).Info("Waiting for the container runtime")
		select {
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), err)
		case <-time.After(pause):
		}
	}
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

package cri

import (
	"cmp"
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

// attemptTimeout bounds one attempt to connect to the runtime.
const attemptTimeout = 10 * time.Second

// RetryBackoff is the pause before the runtime is tried again: 100 milliseconds, doubling up to 5 seconds.
func RetryBackoff() wait.Backoff {
	return wait.Backoff{
		Duration: 100 * time.Millisecond, Factor: 2, Jitter: 0.1, Steps: math.MaxInt, Cap: 5 * time.Second,
	}
}

// Options say where the runtime is. Endpoint and Owner are required.
type Options struct {
	// Endpoint is the address of the runtime service, unix:///….
	Endpoint string
	// ImageEndpoint is the address of the image service. Empty means Endpoint.
	ImageEndpoint string
	// Timeout bounds each call; RunPodSandbox gets twice as long. Zero means two minutes, the kubelet's default.
	Timeout time.Duration
	// Owner is the value of model.LabelOwner. Pods with another owner are ignored.
	Owner string
}

// Runtime is a connection to a runtime. It is safe for concurrent use, and reconnects after a restart of the runtime.
type Runtime struct {
	internalapi.RuntimeService
	// Images is the runtime's image service.
	Images internalapi.ImageManagerService
	// Name is the runtime's name, which is the scheme of container ids in a pod's status.
	Name string
	// Version is the runtime's own version.
	Version string

	owner string
}

// Connect waits until the runtime answers and knows its configuration, or until ctx ends. criadapter answers before its
// engine does, and has no cgroup driver then.
func Connect(ctx context.Context, opts Options) (*Runtime, error) {
	opts.Timeout = cmp.Or(opts.Timeout, 2*time.Minute)
	opts.ImageEndpoint = cmp.Or(opts.ImageEndpoint, opts.Endpoint)
	var r *Runtime
	var failed error
	err := RetryBackoff().DelayFunc().Until(ctx, true, true, func(ctx context.Context) (bool, error) {
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
	// The client checks the connection once, bounded by attempt, and bounds each later call by opts.Timeout.
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
	if _, err := cgroupDriver(attempt, runtime); err != nil {
		return nil, errors.Join(err, images.Close(ctx))
	}
	connected := New(runtime, images, opts.Owner)
	connected.Name, connected.Version = version.GetRuntimeName(), version.GetRuntimeVersion()
	return connected, nil
}

// New wraps connected services. Name and Version stay empty; Connect sets them.
func New(runtime internalapi.RuntimeService, images internalapi.ImageManagerService, owner string) *Runtime {
	return &Runtime{RuntimeService: runtime, Images: images, owner: owner}
}

// Close closes both connections.
func (r *Runtime) Close(ctx context.Context) error {
	return errors.Join(r.RuntimeService.Close(ctx), r.Images.Close(ctx))
}

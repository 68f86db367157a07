package docker

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/moby/moby/client"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/criadapter/criadapter/internal/step"
)

// startBackoff paces the retries of a start that met a shim which was ending. A shim ends within milliseconds, and on a
// busy machine within seconds.
var startBackoff = wait.Backoff{Duration: 5 * time.Millisecond, Factor: 2, Jitter: 0.1, Steps: 11}

// StartContainer implements Containers. The engine answers 304 for a running container, which is not an error.
//
// The containers of a pod share a shim, which ends with the last of them. A start at that moment may be given the
// ending shim. Then the engine has created no process, and the start is repeated.
//
// From Docker Engine 24 on, a start fails if its client leaves, and the engine then reports the container as one that
// could not run.
func (c *Client) StartContainer(ctx context.Context, id string) error {
	defer step.At("engine: start container")()
	o := op{verb: "start container", kind: aContainer, object: id, bound: c.timeout}
	return c.lasting(ctx, o, func(ctx context.Context, s *session) error {
		var last error
		err := wait.ExponentialBackoffWithContext(ctx, startBackoff, func(ctx context.Context) (done bool, err error) {
			_, last = s.api.ContainerStart(ctx, id, client.ContainerStartOptions{})
			return !metEndingShim(last), nil
		})
		if last != nil {
			return last
		}
		return err // ctx ended before the first try
	})
}

// StartCancelled reports whether the engine's error of a failed start says that its client has left, such as a killed
// criadapter. The engine cancels a start only before it runs the container's program.
func StartCancelled(text string) bool { return strings.Contains(text, context.Canceled.Error()) }

// endingShim has texts in the engine's errors for an ending shim. Its socket was closed, or it no longer listened. It
// no longer ran programs, or its end removed the directory of the new container.
var endingShim = []string{"ttrpc: closed", "connect: connection refused", "): shutdown",
	"start failed: failed to write bootstrap.json"}

// metEndingShim reports whether the engine could create no process because the container's shim was ending.
func metEndingShim(err error) bool {
	if err == nil || !strings.Contains(err.Error(), "failed to create task for container") {
		return false
	}
	return slices.ContainsFunc(endingShim, func(text string) bool { return strings.Contains(err.Error(), text) })
}

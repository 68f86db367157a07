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

// startBackoff paces the retries of a start that met an ending shim. A shim ends within milliseconds, and on a busy
// machine within seconds.
var startBackoff = wait.Backoff{Duration: 5 * time.Millisecond, Factor: 2, Jitter: 0.1, Steps: 11}

// StartContainer implements Containers. The engine answers 304 for a running container, which is not an error.
//
// The containers of a pod share a shim, which ends with the last container. The engine may give the ending shim to a
// start at that moment. Then the engine has created no process, and StartContainer repeats the start.
//
// From Docker Engine 24 on, a start fails if its client leaves. The engine then reports that the container could not
// run. So the start outlives its caller.
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

// StartCancelled reports whether a failed start's error, as the engine keeps it, says that the client has left. A
// killed criadapter is such a client. The engine cancels a start only before it runs the container's program.
func StartCancelled(text string) bool { return strings.Contains(text, context.Canceled.Error()) }

// endingShim has parts of the engine's errors for an ending shim. In their order: the shim closed its socket, it no
// longer listened, it no longer ran programs, or its end removed the directory of the new container.
var endingShim = []string{"ttrpc: closed", "connect: connection refused", "): shutdown",
	"start failed: failed to write bootstrap.json"}

// metEndingShim reports whether the engine could create no process because the container's shim was ending.
func metEndingShim(err error) bool {
	if err == nil || !strings.Contains(err.Error(), "failed to create task for container") {
		return false
	}
	return slices.ContainsFunc(endingShim, func(text string) bool { return strings.Contains(err.Error(), text) })
}

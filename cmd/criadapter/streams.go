package main

import (
	"context"
	"fmt"

	"github.com/containerd/errdefs"

	"github.com/criadapter/criadapter/container"
	"github.com/criadapter/criadapter/internal/netns"
	"github.com/criadapter/criadapter/state"
	"github.com/criadapter/criadapter/streaming"
)

// streamRuntime connects streaming clients to containers and pods.
type streamRuntime struct {
	containers *container.Service
	cache      *state.Cache
	sandboxes  podSandboxes
}

// Exec implements streaming.Runtime.
func (r streamRuntime) Exec(ctx context.Context, id string, command []string, streams streaming.Streams) (int, error) {
	return r.containers.Exec(ctx, id, command, container.Streams(streams))
}

// Attach implements streaming.Runtime.
func (r streamRuntime) Attach(ctx context.Context, id string, streams streaming.Streams) error {
	return r.containers.Attach(ctx, id, container.Streams(streams))
}

// Network implements streaming.Runtime.
func (r streamRuntime) Network(ctx context.Context, sandboxID string) (streaming.Network, error) {
	pod, err := r.cache.Snapshot().Pod(sandboxID)
	switch {
	case err != nil:
		return streaming.Network{}, err
	case !pod.Status.Running || pod.Status.Stopping:
		return streaming.Network{}, fmt.Errorf("pod sandbox %s does not run: %w", sandboxID,
			errdefs.ErrFailedPrecondition)
	case pod.Meta.HostNetwork:
		return streaming.Network{Host: true}, nil
	}
	sandbox, err := r.sandboxes.sandboxOf(ctx, pod)
	switch {
	case err != nil:
		return streaming.Network{}, err
	case sandbox != nil:
		return streaming.Network{Dial: func(ctx context.Context, port uint16) (streaming.Conn, error) {
			return sandbox.Dial(ctx, port)
		}}, nil
	case pod.Status.NetnsPath != "":
		return streaming.Network{Namespace: netns.Open(pod.Status.NetnsPath)}, nil
	case pod.Status.PID != 0: // on the engine's bridge there is no pin: a restarted sandbox has another namespace
		return streaming.Network{Namespace: netns.OfContainer(pod.Status.PID, pod.ID)}, nil
	}
	return streaming.Network{}, fmt.Errorf("the network namespace of pod sandbox %s is not known: %w", sandboxID,
		errdefs.ErrFailedPrecondition)
}

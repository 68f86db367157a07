package main

import (
	"context"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/ociexec"
	"github.com/criadapter/criadapter/state"
	"github.com/criadapter/criadapter/stats"
)

// podSandboxes finds a pod's sandbox, for runtimes that run all containers of a pod in one sandbox (gVisor).
type podSandboxes struct{ engine docker.Engine }

// sandboxOf returns the sandbox of a running pod. It returns nil for a pod of another runtime. It also returns nil for
// a runtime with its own shim, because criadapter cannot query a sandbox of such a shim.
func (s podSandboxes) sandboxOf(ctx context.Context, pod *state.Pod) (*ociexec.Sandbox, error) {
	features, err := s.engine.Features(ctx)
	if err != nil || features.OwnShims[pod.Meta.Runtime] != "" ||
		!slices.Contains(features.PodSandboxRuntimes, pod.Meta.Runtime) {
		return nil, err
	}
	return ociexec.FindSandbox(pod.ID, pod.Status.PID)
}

// Usage implements stats.Sandboxes.
func (s podSandboxes) Usage(ctx context.Context, pod *state.Pod, container string) (stats.Usage, error) {
	sandbox, err := s.sandboxOf(ctx, pod)
	if err != nil || sandbox == nil {
		return stats.Usage{}, err
	}
	usage, err := sandbox.Usage(ctx, container)
	return stats.Usage(usage), err
}

// Signal implements container.Sandboxes.
func (s podSandboxes) Signal(
	ctx context.Context, pod *state.Pod, container string, pid int, signal unix.Signal,
) (bool, error) {
	sandbox, err := s.sandboxOf(ctx, pod)
	if err != nil || sandbox == nil {
		return false, err
	}
	return true, sandbox.Signal(ctx, container, pid, signal)
}

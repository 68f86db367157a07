package sandbox

import (
	"context"
	"fmt"

	"github.com/criadapter/criadapter/docker/translate"
	"github.com/criadapter/criadapter/internal/netns"
)

// runtimeSetUp sets up a sandbox container whose runtime runs the whole pod in a sandbox of its own (gVisor). The
// runtime takes the interfaces of the network namespace when the container starts, so the pod joins the network first.
type runtimeSetUp struct{ containerSetUp }

// create implements holderSetUp.
func (r *runtimeSetUp) create(ctx context.Context, p *pending) (string, error) {
	if !translate.UsesHostNetwork(p.config) {
		features, err := r.opts.Engine.Features(ctx)
		if err != nil {
			return "", err
		}
		if err := r.requireSeen(ctx, features.Process, r.network.netnsDir()); err != nil {
			return "", fmt.Errorf("the pod's network namespace: %w", err)
		}
		r.spec.NetworkPath = r.network.netnsPath
	}
	return r.containerSetUp.create(ctx, p)
}

// start implements holderSetUp. The intent is on disk before CNI ADD.
func (r *runtimeSetUp) start(ctx context.Context, p *pending) error {
	id := p.record.SandboxID
	if err := r.opts.Store.Save(ctx, p.record); err != nil {
		return err
	}
	if err := r.opts.Files.write(id, p.config, nil); err != nil {
		return err
	}
	if p.record.NetnsPath != "" {
		if err := r.joinNew(ctx, p); err != nil {
			return err
		}
	}
	if err := r.opts.Engine.StartContainer(ctx, id); err != nil {
		return err
	}
	return r.look(ctx, id)
}

// joinNew joins a new network namespace to the network.
func (r *runtimeSetUp) joinNew(ctx context.Context, p *pending) error {
	if err := (netns.Set{Network: p.record.NetnsPath}).Make(ctx); err != nil {
		return fmt.Errorf("the pod's network namespace: %w", err)
	}
	handle := netns.Open(p.record.NetnsPath)
	return r.network.joinPinned(ctx, p, &handle)
}

// connect implements holderSetUp: start has joined the pod.
func (r *runtimeSetUp) connect(context.Context, *pending) error { return nil }

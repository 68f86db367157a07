package sandbox

import (
	"context"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/docker/translate"
	"github.com/criadapter/criadapter/state"
)

// A holder keeps the namespaces of pods alive. Nobody but the holders knows what that takes. Which one a pod has is
// decided when it is made, and in its record.
type holder interface {
	// create makes the pod's id. With an error nothing is left.
	create(ctx context.Context, p *pending) (id string, err error)
	// start makes the namespaces. The intent is on disk before anything is held for the pod in the network.
	start(ctx context.Context, p *pending) error
	// connect joins a pod with a network of its own and records the result.
	connect(ctx context.Context, p *pending) error
	// abandon pushes what undoes that which start has begun and connect has not taken over.
	abandon(p *pending)
	// entry is what the cache shows of a pod that was set up.
	entry(ctx context.Context, p *pending) state.Pod
	// repair gives a running pod back what a crash or a clean-up took from its namespaces. It is quick.
	repair(ctx context.Context, pod *state.Pod, record checkpoint.Record) error
	// stop lets the namespaces go, but for the pinned network namespace, and has the cache show it. It is idempotent.
	stop(ctx context.Context, id string) error
	// remove removes what is left after stop, and does what stop does for a pod that nobody has seen. It is idempotent.
	remove(ctx context.Context, id string) error
}

// chooseHolder decides which holder a new pod has, and prepares what that needs.
func (s *Service) chooseHolder(ctx context.Context, p *pending, in translate.SandboxInput) error {
	if s.opts.WithoutContainers {
		kernel, able, err := translate.WithoutContainer(in)
		if err != nil {
			return err
		}
		p.cgroupParent = kernel.CgroupParent
		// A slice that nobody has made comes and goes with the engine's containers.
		if able && (p.cgroupDriver != systemdDriver || !s.lacksCgroup(p)) {
			if able, err = (kernelHolder{s}).reaches(ctx, in.Features.Process); err != nil {
				return err
			}
			if able {
				p.holder, p.kernel = kernelHolder{s}, kernel
				return nil
			}
		}
	}
	var err error
	if in.Image, err = s.opts.Images.EnsureSandboxImage(ctx); err != nil {
		return err
	}
	p.holder = containerHolder{s}
	p.container.spec, err = translate.Sandbox(in)
	if err == nil {
		p.cgroupParent = p.container.spec.Host.CgroupParent
	}
	return err
}

// holderOf is the holder of a pod that was made before.
func (s *Service) holderOf(record checkpoint.Record) holder {
	if record.Namespaces != nil {
		return kernelHolder{s}
	}
	return containerHolder{s}
}

package sandbox

import (
	"context"

	"github.com/criadapter/criadapter/docker/translate"
)

// chooseHolder picks the holder of a new pod, and prepares the holder's input: the pod's cgroup, and the sandbox image
// and container specification if the pod needs a sandbox container.
func (s *Service) chooseHolder(ctx context.Context, p *pending, in translate.SandboxInput) error {
	if s.opts.WithoutContainers {
		pod, able, err := translate.WithoutContainer(in)
		if err != nil {
			return err
		}
		p.cgroup.Parent = pod.CgroupParent
		// A missing slice needs a sandbox container, because systemd makes and removes slices with the engine's
		// containers.
		if able && (p.cgroup.Driver != systemdDriver || !s.cgroups.isMissing(p)) {
			if able, err = s.kernel.seenByEngine(ctx, in.Features.Process); err != nil {
				return err
			}
			if able {
				p.namespaces = &kernelSetUp{kernelHolder: s.kernel, pod: pod}
				return nil
			}
		}
	}
	var err error
	if in.Image, err = s.opts.Images.EnsureSandboxImage(ctx); err != nil {
		return err
	}
	spec, err := translate.Sandbox(in)
	if err != nil {
		return err
	}
	p.cgroup.Parent = spec.Host.CgroupParent
	setUp := containerSetUp{containerHolder: s.containers, spec: spec}
	if in.Features.RunsPodSandboxes(p.record.Runtime) && !in.PublishPorts {
		p.namespaces = &runtimeSetUp{setUp}
		return nil
	}
	p.namespaces = &setUp
	return nil
}

package container

import (
	"fmt"

	"github.com/containerd/errdefs"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// checkTarget refuses a target of a PID namespace that does not run in the new container's pod (CRI
// NamespaceOption.target_id: "This container must have been previously created in the same pod"). The engine would
// refuse the target only at the start, and without the field's name. checkTarget also refuses a shortened id, with
// which the engine may find another container.
func (s *Service) checkTarget(sandboxID string, options *runtimeapi.NamespaceOption) error {
	if options.GetPid() != runtimeapi.NamespaceMode_TARGET {
		return nil
	}
	const field = "config.linux.security_context.namespace_options.target_id"
	target, err := s.opts.Cache.Snapshot().Container(options.GetTargetId())
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", field, err)
	case target.SandboxID != sandboxID:
		return fmt.Errorf("%s: container %s is in another pod: %w", field, target.ID, errdefs.ErrInvalidArgument)
	case target.ID != options.GetTargetId():
		return fmt.Errorf("%s: %q is not the whole id of a container: %w", field, options.GetTargetId(),
			errdefs.ErrInvalidArgument)
	case target.Status.State() != runtimeapi.ContainerState_CONTAINER_RUNNING:
		return fmt.Errorf("%s: %w", field, wrongState(target, "running"))
	}
	return nil
}

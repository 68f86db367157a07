package kuberuntime

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	crierrors "k8s.io/cri-api/pkg/errors"

	"github.com/criadapter/criadapter/kubelet/imagemanager"
	"github.com/criadapter/criadapter/kubelet/model"
)

// imageVolumes pulls the images that the container mounts as volumes, and returns them by volume. Policies, back-off
// and credentials work as for container images. If a pull failed or is in back-off, the duration is the time until the
// next try.
func (m *Manager) imageVolumes(
	ctx context.Context, in inSandbox, spec *v1.Container,
) (map[string]*runtimeapi.ImageSpec, time.Duration, error) {
	present := map[string]*runtimeapi.ImageSpec{}
	for i := range in.pod.Spec.Volumes {
		volume := &in.pod.Spec.Volumes[i]
		mounted := slices.ContainsFunc(spec.VolumeMounts, func(m v1.VolumeMount) bool { return m.Name == volume.Name })
		if volume.Image == nil || !mounted {
			continue
		}
		image, again, err := m.opts.Images.Ensure(ctx, imagemanager.Request{
			Pod: in.pod, Image: volume.Image.Reference, Policy: volume.Image.PullPolicy, Sandbox: in.config,
			Record: m.recordImage(ctx, in, spec.Name),
		})
		if err != nil {
			return nil, again, err
		}
		present[volume.Name] = &runtimeapi.ImageSpec{Image: image.GetId(), UserSpecifiedImage: volume.Image.Reference}
	}
	return present, 0, nil
}

// createReason returns the waiting reason after a failed CreateContainer. If an image volume cannot be mounted, the
// runtime's message begins with a reason of the CRI. rest is the message without this reason.
func createReason(err error) (reason string, rest error) {
	reason = crierrors.ErrImageVolumeMountFailed.Error()
	if text, ok := strings.CutPrefix(message(err), reason); ok {
		return reason, errors.New(strings.TrimPrefix(text, ": "))
	}
	return model.ReasonCreateContainerError, err
}

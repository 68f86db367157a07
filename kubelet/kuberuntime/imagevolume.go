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

// imageVolumes makes the images present that the container mounts, with the policies, pauses and credentials of the
// images that containers run. They are named by the volume. Again is when a pull's back-off ends, if that is why it
// failed.
func (m *Manager) imageVolumes(ctx context.Context, in inSandbox, spec *v1.Container) (map[string]*runtimeapi.ImageSpec, time.Duration, error) {
	present := map[string]*runtimeapi.ImageSpec{}
	for i := range in.pod.Spec.Volumes {
		volume := &in.pod.Spec.Volumes[i]
		mounted := slices.ContainsFunc(spec.VolumeMounts, func(m v1.VolumeMount) bool { return m.Name == volume.Name })
		if volume.Image == nil || !mounted {
			continue
		}
		image, again, err := m.opts.Images.Ensure(ctx, imagemanager.Request{
			Pod: in.pod, Image: volume.Image.Reference, Policy: volume.Image.PullPolicy, Sandbox: in.config, Record: m.recordImage(in, spec.Name),
		})
		if err != nil {
			return nil, again, err
		}
		present[volume.Name] = &runtimeapi.ImageSpec{Image: image.GetId(), UserSpecifiedImage: volume.Image.Reference}
	}
	return present, 0, nil
}

// createReason finds the word for a container that the runtime did not create, and what is left to say: the runtime
// begins its message with a word that is known if an image volume is to blame.
func createReason(err error) (reason string, rest error) {
	reason = crierrors.ErrImageVolumeMountFailed.Error()
	if text, ok := strings.CutPrefix(message(err), reason); ok {
		return reason, errors.New(strings.TrimPrefix(text, ": "))
	}
	return model.ReasonCreateContainerError, err
}

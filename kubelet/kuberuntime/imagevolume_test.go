package kuberuntime

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/kubelet/model/modeltest"
	"github.com/criadapter/criadapter/kubelet/podspec"
)

// noting keeps the inputs of Container.
type noting struct {
	specs
	inputs []podspec.ContainerInput
}

func (n *noting) Container(ctx context.Context, in podspec.ContainerInput) (*runtimeapi.ContainerConfig, error) {
	n.inputs = append(n.inputs, in)
	return n.specs.Container(ctx, in)
}

// withImages adds image volumes to a pod with the containers a, which mounts all of them, and b, which mounts none.
func withImages(volumes map[string]v1.ImageVolumeSource) *v1.Pod {
	pod := pulled(modeltest.Pod(v1.RestartPolicyAlways, "app:a", "app:b"))
	for name, source := range volumes {
		pod.Spec.Volumes = append(pod.Spec.Volumes,
			v1.Volume{Name: name, VolumeSource: v1.VolumeSource{Image: &source}})
		pod.Spec.Containers[0].VolumeMounts = append(pod.Spec.Containers[0].VolumeMounts,
			v1.VolumeMount{Name: name, MountPath: "/" + name})
	}
	return pod
}

func TestImageVolumesArePulledFirst(t *testing.T) {
	b := newBench(t)
	seen := &noting{specs: specs{b.dir}}
	b.opts.Specs = seen
	pod := withImages(map[string]v1.ImageVolumeSource{
		"here":    {Reference: "image", PullPolicy: v1.PullNever},
		"fetched": {Reference: "models:1", PullPolicy: v1.PullIfNotPresent},
	})
	b.sync(pod, Probes{})
	testutil.Require(t, b.running(pod) == "a b" && len(seen.inputs) == 2,
		"running %q after %d calls of Container", b.running(pod), len(seen.inputs))
	volumes := seen.inputs[0].ImageVolumes
	testutil.Assert(t, len(volumes) == 2 && volumes["fetched"].GetUserSpecifiedImage() == "models:1" &&
		volumes["fetched"].GetImage() != "" && volumes["here"].GetImage() != "",
		"volumes of the container that mounts them: %v", volumes)
	others := seen.inputs[1].ImageVolumes
	testutil.Assert(t, len(others) == 0, "volumes of the container that mounts none: %v", others)
	recorded := false
	for _, event := range b.events.List() {
		recorded = recorded || event.Reason == "Pulled" && event.Type == v1.EventTypeNormal &&
			event.InvolvedObject.FieldPath != ""
	}
	testutil.Assert(t, recorded, "no event for the pull: %+v", b.events.List())
}

func TestImageVolumesThatFail(t *testing.T) {
	for want, c := range map[string]struct {
		policy v1.PullPolicy
		create error
	}{
		model.ReasonErrImageNeverPull: {policy: v1.PullNever},
		"ImageVolumeMountFailed": {policy: v1.PullAlways,
			create: status.Error(codes.Unknown, "ImageVolumeMountFailed: no such part")},
		model.ReasonCreateContainerError: {policy: v1.PullAlways, create: errors.New("no: ImageVolumeMountFailed")},
	} {
		t.Run(want, func(t *testing.T) {
			b := newBench(t)
			pod := withImages(map[string]v1.ImageVolumeSource{"volume": {Reference: "models:1", PullPolicy: c.policy}})
			pod.Spec.Containers = pod.Spec.Containers[:1]
			if c.create != nil {
				b.fake.InjectError("CreateContainer", c.create)
			}
			result, err := b.SyncPod(t.Context(), pod, b.status(pod), Probes{})
			testutil.Assert(t, err != nil && result.Waiting["a"] != nil && result.Waiting["a"].Reason == want &&
				!strings.HasPrefix(result.Waiting["a"].Err.Error(), want), "%v, %+v", err, result.Waiting["a"])
		})
	}
}

// TestEventsWithoutAnImage: containers that lack their image, or the image of a volume, have the kubelet's event in
// addition to the event with the cause.
func TestEventsWithoutAnImage(t *testing.T) {
	b := newBench(t)
	pod := withImages(map[string]v1.ImageVolumeSource{"volume": {Reference: "missing:1", PullPolicy: v1.PullNever}})
	pod.Spec.Containers[1].Image = "missing:2"
	_, err := b.SyncPod(t.Context(), pod, b.status(pod), Probes{})
	testutil.Assert(t, err != nil, "both containers have their images")
	var failed []string
	for _, event := range b.events.List() {
		if event.Reason == "Failed" && event.Type == v1.EventTypeWarning {
			failed = append(failed, event.InvolvedObject.FieldPath+" "+event.Message)
		}
	}
	slices.Sort(failed)
	testutil.Assert(t, slices.Equal(failed, []string{"spec.containers{a} Error: ErrImageNeverPull",
		"spec.containers{b} Error: ErrImageNeverPull"}), "events %q", failed)
}

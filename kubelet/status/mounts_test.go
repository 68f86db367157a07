package status

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/model"
)

func TestVolumeMounts(t *testing.T) {
	mode := func(m v1.RecursiveReadOnlyMode) *v1.RecursiveReadOnlyMode { return &m }
	c := &v1.Container{VolumeMounts: []v1.VolumeMount{
		{Name: "plain", MountPath: "/plain"},
		{Name: "only", MountPath: "/only", ReadOnly: true},
		{Name: "possible", MountPath: "/possible", ReadOnly: true,
			RecursiveReadOnly: mode(v1.RecursiveReadOnlyIfPossible)},
		{Name: "enabled", MountPath: "/enabled", ReadOnly: true, RecursiveReadOnly: mode(v1.RecursiveReadOnlyEnabled)},
		{Name: "image", MountPath: "/image"},
	}}
	observed := &model.ContainerStatus{Mounts: map[string]model.Mount{
		"/possible": {RecursiveReadOnly: true}, "/image": {ImageRef: "x@sha256:1"}}}
	for name, test := range map[string]struct {
		observed *model.ContainerStatus
		modes    []v1.RecursiveReadOnlyMode // "" for none
		image    string
	}{
		"observed": {observed, []v1.RecursiveReadOnlyMode{"", "Disabled", "Enabled", "Enabled", ""}, "x@sha256:1"},
		"a runtime that reports no mounts": {&model.ContainerStatus{},
			[]v1.RecursiveReadOnlyMode{"", "Disabled", "Disabled", "Enabled", ""}, ""},
		"not created": {nil, []v1.RecursiveReadOnlyMode{"", "Disabled", "", "Enabled", ""}, ""},
	} {
		got := volumeMounts(c, test.observed)
		testutil.Require(t, len(got) == len(c.VolumeMounts), "%s: %+v", name, got)
		for i, want := range test.modes {
			shown := v1.RecursiveReadOnlyMode("")
			if got[i].RecursiveReadOnly != nil {
				shown = *got[i].RecursiveReadOnly
			}
			testutil.Assert(t, shown == want && got[i].Name == c.VolumeMounts[i].Name &&
				got[i].ReadOnly == c.VolumeMounts[i].ReadOnly, "%s: mount %+v, want the mode %q", name, got[i], want)
		}
		image := ""
		if status := got[4].VolumeStatus; status != nil {
			image = status.Image.ImageRef
		}
		testutil.Equal(t, image, test.image, "%s: image", name)
	}
}

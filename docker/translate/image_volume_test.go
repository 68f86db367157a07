package translate

import (
	"slices"
	"testing"

	"github.com/moby/moby/api/types/mount"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
)

func imageMountsInput() ContainerInput {
	in := containerInput()
	in.Config.Mounts = []*runtimeapi.Mount{
		{ContainerPath: "/host", HostPath: "/srv"},
		{ContainerPath: "/all", Image: &runtimeapi.ImageSpec{Image: "models:1"}},
		{ContainerPath: "/part", Image: &runtimeapi.ImageSpec{Image: "models:1"}, ImageSubPath: "small",
			RecursiveReadOnly: true, Readonly: true},
	}
	in.ImageSources = map[int]ImageSource{1: {ID: "sha256:1"}, 2: {ID: "sha256:1", Path: "/images/1/fs/small"}}
	return in
}

func TestImageVolumesAreListed(t *testing.T) {
	got := ImageVolumes(imageMountsInput().Config)
	want := []ImageVolume{
		{Index: 1, Field: "config.mounts[1]", Image: "models:1"},
		{Index: 2, Field: "config.mounts[2]", Image: "models:1", SubPath: "small"},
	}
	testutil.Assert(t, slices.Equal(got, want), "got %+v", got)
}

func TestImageVolumesAreReadOnly(t *testing.T) {
	in := imageMountsInput()
	in.Features = newEngine()
	in.Features.SELinux = false
	mounts := mustContainer(t, in).Host.Mounts
	testutil.Require(t, len(mounts) == 3, "mounts: %+v", mounts)
	m := mounts[1]
	testutil.Assert(t, m.Type == mount.TypeImage && m.Source == "sha256:1" && m.Target == "/all" && m.ReadOnly &&
		m.ImageOptions == nil, "by the engine: %+v", m)
	if m := mounts[2]; m.Type != mount.TypeBind || m.Source != "/images/1/fs/small" || m.Target != "/part" ||
		!m.ReadOnly {
		t.Errorf("from the host: %+v", m)
	}
}

func TestImageVolumesAreRelabelledForAll(t *testing.T) {
	in := imageMountsInput()
	in.Features = newEngine()
	binds := mustContainer(t, in).Host.Binds
	testutil.Assert(t, slices.Contains(binds, "/images/1/fs/small:/part:ro,z"), "binds: %q", binds)
}

package generate

import (
	"testing"

	"github.com/moby/moby/api/types/container"
	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/internal/testutil"
)

// TestVolumeNames checks that different volumes of Docker have different names in the pod. The same volume keeps its
// name.
func TestVolumeNames(t *testing.T) {
	p := &pod{}
	mount := func(name string) *container.MountPoint {
		return &container.MountPoint{Name: name, Source: "/volumes/" + name}
	}
	for _, c := range [][2]string{{"a_b", "a-b"}, {"a.b", "a-b-2"}, {"a_b", "a-b"}, {"a-b", "a-b-3"},
		{"host-5", "host-5"}} {
		testutil.Equal(t, p.claim(mount(c[0])), c[1], "the volume of %s", c[0])
	}
	host := p.volume("host", v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/x"}})
	testutil.Equal(t, host, "host-5-2", "a directory of the host")
	testutil.Equal(t, p.volumes[1].Spec.HostPath.Path, "/volumes/a.b", "the path of the second one")
}

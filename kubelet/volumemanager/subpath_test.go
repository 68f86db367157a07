package volumemanager

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/model/modeltest"
)

func hostVolume(path string) v1.Volume {
	return v1.Volume{Name: "host", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: path}}}
}

func TestSubPathHoldsWhatItOpened(t *testing.T) {
	needRoot(t)
	volume := t.TempDir()
	testutil.WriteFile(t, filepath.Join(volume, "real/f"), "inside")
	testutil.Must(t, os.Symlink("real", filepath.Join(volume, "link")))
	m := testManager(t, modeltest.Objects{})
	pod := podWith(hostVolume(volume))
	for _, c := range []struct{ path, want string }{{"link/f", "inside"}, {"real/f", "inside"}} {
		got, err := m.SubPath(SubPathRequest{Pod: pod, Container: "c", Volume: "host", Path: c.path})
		testutil.Must(t, err)
		wantFile(t, got, c.want)
	}
	got, err := m.SubPath(SubPathRequest{Pod: pod, Container: "c", Index: 1, Volume: "host", Path: "link"})
	testutil.Must(t, err)
	// A container swaps the directory for a link to the host's root after the check.
	testutil.Must(t, os.Rename(filepath.Join(volume, "real"), filepath.Join(volume, "moved")))
	testutil.Must(t, os.Symlink("/", filepath.Join(volume, "real")))
	wantFile(t, filepath.Join(got, "f"), "inside")
}

func TestSubPathMakesWhatIsMissing(t *testing.T) {
	needRoot(t)
	volume := t.TempDir()
	// The mode of an emptyDir in memory with an fsGroup.
	mode := fs.ModeDir | fs.ModeSetgid | fs.ModeSticky | 0o777
	testutil.Must(t, errors.Join(os.Chown(volume, -1, 123), os.Chmod(volume, mode)))
	m := testManager(t, modeltest.Objects{})
	pod := podWith(hostVolume(volume))
	_, err := m.SubPath(SubPathRequest{Pod: pod, Container: "c", Volume: "host", Path: "a/b"})
	testutil.Must(t, err)
	for _, made := range []string{"a", "a/b"} {
		info, err := os.Stat(filepath.Join(volume, made))
		testutil.Must(t, err)
		group := info.Sys().(*syscall.Stat_t).Gid
		testutil.Assert(t, info.Mode() == mode && group == 123,
			"%s: %v of group %d, want a directory as the volume is", made, info.Mode(), group)
	}
}

func TestSubPathStaysInTheVolume(t *testing.T) {
	needRoot(t)
	volume := t.TempDir()
	for name, target := range map[string]string{"out": "/etc", "up": "../..", "deep": "out/passwd"} {
		testutil.Must(t, os.Symlink(target, filepath.Join(volume, name)))
	}
	m := testManager(t, modeltest.Objects{})
	pod := podWith(hostVolume(volume))
	for _, path := range []string{"..", "../x", "/etc", "out", "out/passwd", "out/new", "up", "deep", "a/../../x"} {
		got, err := m.SubPath(SubPathRequest{Pod: pod, Container: "c", Volume: "host", Path: path})
		testutil.Assert(t, err != nil, "%q became %s, want an error", path, got)
	}
	for _, container := range []string{"", "..", "a/b"} {
		_, err := m.SubPath(SubPathRequest{Pod: pod, Container: container, Volume: "host", Path: "x"})
		testutil.Assert(t, errors.Is(err, errdefs.ErrInvalidArgument),
			"container %q: %v, want ErrInvalidArgument", container, err)
	}
	_, err := os.Stat("/etc/new")
	testutil.Assert(t, err != nil, "a directory was made outside of the volume")
}

func TestSubPathOfAnUpdatedConfigMap(t *testing.T) {
	needRoot(t)
	object := &v1.ConfigMap{Data: map[string]string{"a": "1"}}
	m := testManager(t, modeltest.Objects{ConfigMaps: map[string]*v1.ConfigMap{"shop/settings": object}})
	pod := podWith(configMapVolume("settings", false))
	mustMount(t, m, pod)
	request := SubPathRequest{Pod: pod, Container: "c", Volume: "conf", Path: "a"}
	got, err := m.SubPath(request)
	testutil.Must(t, err)
	object.Data = map[string]string{"a": "2"}
	mustMount(t, m, pod)
	wantFile(t, got, "1") // a container sees the file that it was started with
	got, err = m.SubPath(request)
	testutil.Must(t, err)
	wantFile(t, got, "2") // the restarted container sees the new file
	points, err := mountPoints(got)
	testutil.Assert(t, err == nil && len(points) == 1, "mounts at %s: %v, %v; want one", got, points, err)
}

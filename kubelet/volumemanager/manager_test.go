package volumemanager

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/model/modeltest"
)

// testManager makes a manager with its own root. All mounts below the root are removed at the end.
func testManager(t *testing.T, o modeltest.Objects) *Manager {
	t.Helper()
	root := t.TempDir()
	t.Cleanup(func() {
		testutil.Must(t, unmountBelow(root))
	})
	return New(Options{RootDir: root, Objects: o})
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
}

func podWith(volumes ...v1.Volume) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop", UID: "uid-1",
			Labels: map[string]string{"app": "web"}},
		Spec: v1.PodSpec{Volumes: volumes},
	}
}

func configMapVolume(name string, optional bool, items ...v1.KeyToPath) v1.Volume {
	return v1.Volume{Name: "conf", VolumeSource: v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{
		LocalObjectReference: v1.LocalObjectReference{Name: name}, Optional: &optional, Items: items,
	}}}
}

func mustMount(t *testing.T, m *Manager, pod *v1.Pod) string {
	t.Helper()
	testutil.Must(t, m.Mount(context.Background(), pod))
	mounted, err := m.Find(pod, pod.Spec.Volumes[0].Name)
	testutil.Must(t, err)
	return mounted.Path
}

func wantFile(t *testing.T, path, want string) {
	t.Helper()
	got, err := os.ReadFile(path)
	testutil.Assert(t, err == nil && string(got) == want, "%s: got %q, %v; want %q", path, got, err, want)
}

func TestConfigMapFollowsItsObject(t *testing.T) {
	object := &v1.ConfigMap{Data: map[string]string{"a": "1", "b": "2"}, BinaryData: map[string][]byte{"c": {0, 255}}}
	m := testManager(t, modeltest.Objects{ConfigMaps: map[string]*v1.ConfigMap{"shop/settings": object}})
	pod := podWith(configMapVolume("settings", false))
	path := mustMount(t, m, pod)
	wantFile(t, filepath.Join(path, "a"), "1")
	wantFile(t, filepath.Join(path, "c"), "\x00\xff")
	first, err := os.Readlink(filepath.Join(path, dataLink))
	testutil.Must(t, err)

	mustMount(t, m, pod)
	again, _ := os.Readlink(filepath.Join(path, dataLink))
	testutil.Assert(t, again == first, "the same content was written again: %s after %s", again, first)

	object.Data = map[string]string{"a": "new", "b": "2", "d": "4"}
	mustMount(t, m, pod)
	wantFile(t, filepath.Join(path, "a"), "new")
	wantFile(t, filepath.Join(path, "d"), "4")
	delete(object.Data, "b")
	mustMount(t, m, pod)
	testutil.Gone(t, filepath.Join(path, "b"), "the removed key is still visible")
	testutil.Gone(t, filepath.Join(path, first), "the old generation is still there")
}

// TestRemovedKeyIsGone: a removed key must not stay readable, wherever its name sorts.
func TestRemovedKeyIsGone(t *testing.T) {
	for _, removed := range []string{"a", "b", "c"} {
		t.Run(removed, func(t *testing.T) {
			object := &v1.ConfigMap{Data: map[string]string{"a": "1", "b": "2", "c": "3"}}
			m := testManager(t, modeltest.Objects{ConfigMaps: map[string]*v1.ConfigMap{"shop/settings": object}})
			pod := podWith(configMapVolume("settings", false))
			path := mustMount(t, m, pod)
			delete(object.Data, removed)
			mustMount(t, m, pod)
			for _, file := range []string{removed, filepath.Join(dataLink, removed)} {
				content, err := os.ReadFile(filepath.Join(path, file))
				testutil.Assert(t, errors.Is(err, fs.ErrNotExist), "%s is still there: %q, %v", file, content, err)
			}
			for name, content := range object.Data {
				wantFile(t, filepath.Join(path, name), content)
			}
		})
	}
}

// TestStaleContent: an existing volume that cannot be updated is a StaleError, a missing one is not.
func TestStaleContent(t *testing.T) {
	o := modeltest.Objects{ConfigMaps: map[string]*v1.ConfigMap{"shop/conf": {Data: map[string]string{"key": "old"}}}}
	m := testManager(t, o)
	pod := podWith(configMapVolume("conf", false))
	path := mustMount(t, m, pod)
	delete(o.ConfigMaps, "shop/conf")
	var stale *StaleError
	err := m.Mount(t.Context(), pod)
	testutil.Assert(t, errors.As(err, &stale) && errors.Is(err, errdefs.ErrNotFound) &&
		strings.Contains(err.Error(), `volume "conf"`), "got %v", err)
	wantFile(t, filepath.Join(path, "key"), "old")
	more := configMapVolume("other", false)
	more.Name = "more"
	pod.Spec.Volumes = append(pod.Spec.Volumes, more)
	err = m.Mount(t.Context(), pod)
	testutil.Assert(t, err != nil && !errors.As(err, &stale), "a volume that was never made: %v", err)
}

func TestConfigMapItems(t *testing.T) {
	m := testManager(t,
		modeltest.Objects{
			ConfigMaps: map[string]*v1.ConfigMap{"shop/settings": {Data: map[string]string{"a": "1", "b": "2"}}}})
	pod := podWith(configMapVolume("settings", false, v1.KeyToPath{Key: "a", Path: "etc/deep/a.conf",
		Mode: new(int32(0o400))}))
	path := mustMount(t, m, pod)
	wantFile(t, filepath.Join(path, "etc/deep/a.conf"), "1")
	info, err := os.Stat(filepath.Join(path, "etc/deep/a.conf"))
	testutil.Assert(t, err == nil && info.Mode().Perm() == 0o400, "mode: %v, %v; want 0400", info, err)
	testutil.Gone(t, filepath.Join(path, "b"), "a key that is not an item is visible")
}

func TestMissingObjectsOfVolumes(t *testing.T) {
	m := testManager(t, modeltest.Objects{ConfigMaps: map[string]*v1.ConfigMap{"shop/settings": {}}})
	for _, c := range []struct {
		name   string
		volume v1.Volume
		want   error
	}{
		{"object", configMapVolume("nothing", false), errdefs.ErrNotFound},
		{"optional object", configMapVolume("nothing", true), nil},
		{"key", configMapVolume("settings", false, v1.KeyToPath{Key: "k", Path: "k"}), errdefs.ErrNotFound},
		{"optional key", configMapVolume("settings", true, v1.KeyToPath{Key: "k", Path: "k"}), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := m.Mount(context.Background(), podWith(c.volume))
			testutil.Assert(t, errors.Is(err, c.want) && (err == nil || strings.Contains(err.Error(), `volume "conf"`)),
				"got %v, want %v naming the volume", err, c.want)
		})
	}
}

func TestPathsThatLeaveTheVolume(t *testing.T) {
	m := testManager(t,
		modeltest.Objects{ConfigMaps: map[string]*v1.ConfigMap{"shop/settings": {Data: map[string]string{"a": "1"}}}})
	for _, bad := range []string{"../a", "/a", "x/../../a", "..a", "."} {
		pod := podWith(configMapVolume("settings", false, v1.KeyToPath{Key: "a", Path: bad}))
		err := m.Mount(context.Background(), pod)
		testutil.Assert(t, errors.Is(err, errdefs.ErrInvalidArgument),
			"path %q: got %v, want ErrInvalidArgument", bad, err)
	}
	for _, uid := range []types.UID{"", ".", "..", "../../etc", "a/b"} {
		if err := m.Unmount(context.Background(), uid); !errors.Is(err, errdefs.ErrInvalidArgument) {
			t.Errorf("uid %q: got %v, want ErrInvalidArgument", uid, err)
		}
	}
}

func TestSecretIsInMemoryAndOwnedByTheGroup(t *testing.T) {
	needRoot(t)
	m := testManager(t,
		modeltest.Objects{Secrets: map[string]*v1.Secret{"shop/key": {Data: map[string][]byte{"k": []byte("s3")}}}})
	pod := podWith(
		v1.Volume{Name: "sec", VolumeSource: v1.VolumeSource{
			Secret: &v1.SecretVolumeSource{SecretName: "key", DefaultMode: new(int32(0o600))}}})
	pod.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: new(int64(4242))}
	path := mustMount(t, m, pod)
	wantTmpfs(t, path)
	info, err := os.Stat(filepath.Join(path, "k"))
	testutil.Must(t, err)
	got := info.Sys().(*syscall.Stat_t).Gid
	testutil.Assert(t, got == 4242 && info.Mode().Perm() == 0o640,
		"group %d, mode %v; want 4242 and 0640", got, info.Mode())
	mustMount(t, m, pod)
	points, _ := mountPoints(path)
	testutil.Assert(t, len(points) == 1, "mounted %d times, want once", len(points))
	testutil.Must(t, m.Unmount(context.Background(), pod.UID))
	uids, err := m.Pods()
	testutil.Assert(t, err == nil && len(uids) == 0, "leftovers: %v, %v", uids, err)
}

func wantTmpfs(t *testing.T, path string) {
	t.Helper()
	const tmpfsMagic = 0x01021994
	var stat syscall.Statfs_t
	err := syscall.Statfs(path, &stat)
	testutil.Assert(t, err == nil && stat.Type == tmpfsMagic, "%s: type %x, %v; want a tmpfs", path, stat.Type, err)
}

// mountForGroup mounts an emptyDir of a pod with the group 77, and checks its mode and group.
func mountForGroup(
	t *testing.T, m *Manager, source v1.EmptyDirVolumeSource, want fs.FileMode,
) (path string, pod *v1.Pod) {
	t.Helper()
	pod = podWith(v1.Volume{Name: "scratch", VolumeSource: v1.VolumeSource{EmptyDir: &source}})
	pod.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: new(int64(77))}
	path = mustMount(t, m, pod)
	info, err := os.Stat(path)
	testutil.Must(t, err)
	testutil.Assert(t, info.Mode() == want && info.Sys().(*syscall.Stat_t).Gid == 77,
		"mode %v, group %d; want %v and 77", info.Mode(), info.Sys().(*syscall.Stat_t).Gid, want)
	return path, pod
}

func TestEmptyDir(t *testing.T) {
	needRoot(t)
	m := testManager(t, modeltest.Objects{})
	path, pod := mountForGroup(t, m, v1.EmptyDirVolumeSource{}, fs.ModeDir|fs.ModeSetgid|0o777)
	testutil.Must(t, os.WriteFile(filepath.Join(path, "kept"), []byte("x"), 0o600))
	mustMount(t, m, pod)
	wantFile(t, filepath.Join(path, "kept"), "x")
}

func TestMemoryEmptyDirIsLimited(t *testing.T) {
	needRoot(t)
	path, _ := mountForGroup(t, testManager(t, modeltest.Objects{}),
		v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory, SizeLimit: new(resource.MustParse("1Mi"))},
		fs.ModeDir|fs.ModeSetgid|fs.ModeSticky|0o777)
	wantTmpfs(t, path)
	err := os.WriteFile(filepath.Join(path, "big"), make([]byte, 2<<20), 0o600)
	testutil.Assert(t, errors.Is(err, syscall.ENOSPC), "2 MiB in a volume of 1 MiB: %v, want ENOSPC", err)
}

// TestMemoryEmptyDirHasTheNodesMemory: without a limit, or with a larger one, the volume is as large as the memory that
// the node has for pods.
func TestMemoryEmptyDirHasTheNodesMemory(t *testing.T) {
	needRoot(t)
	for _, limit := range []*resource.Quantity{nil, new(resource.MustParse("1Ti"))} {
		m := testManager(t, modeltest.Objects{})
		m.opts.Allocatable = func() v1.ResourceList {
			return v1.ResourceList{v1.ResourceMemory: resource.MustParse("3Mi")}
		}
		path := mustMount(t, m, podWith(v1.Volume{Name: "scratch", VolumeSource: v1.VolumeSource{
			EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory, SizeLimit: limit}}}))
		var stat syscall.Statfs_t
		testutil.Must(t, syscall.Statfs(path, &stat))
		testutil.Equal(t, int64(stat.Blocks)*stat.Bsize, 3<<20, "the size with the limit %v", limit)
	}
}

func TestOnDisk(t *testing.T) {
	m := New(Options{RootDir: "/root"})
	pod := podWith(
		v1.Volume{Name: "plain"},
		v1.Volume{Name: "disk", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}},
		v1.Volume{Name: "memory",
			VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory}}},
		v1.Volume{Name: "host", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/etc"}}},
		v1.Volume{Name: "secret", VolumeSource: v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "s"}}},
		v1.Volume{Name: "image", VolumeSource: v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: "i"}}},
		configMapVolume("map", false),
	)
	base := "/root/pods/" + string(pod.UID) + "/volumes/kubernetes.io~"
	want := map[string]string{"plain": base + "empty-dir/plain", "disk": base + "empty-dir/disk",
		"conf": base + "configmap/conf"}
	got := m.OnDisk(pod)
	testutil.Assert(t, maps.Equal(got, want), "%v, want %v", got, want)
}

func TestProjectedJoinsItsSources(t *testing.T) {
	needRoot(t)
	m := testManager(t, modeltest.Objects{
		ConfigMaps: map[string]*v1.ConfigMap{"shop/settings": {Data: map[string]string{"a": "map"}}},
		Secrets:    map[string]*v1.Secret{"shop/key": {Data: map[string][]byte{"k": []byte("secret")}}},
	})
	pod := podWith(
		v1.Volume{Name: "all",
			VolumeSource: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
				{ConfigMap: &v1.ConfigMapProjection{LocalObjectReference: v1.LocalObjectReference{Name: "settings"}}},
				{Secret: &v1.SecretProjection{LocalObjectReference: v1.LocalObjectReference{Name: "key"}}},
				{DownwardAPI: &v1.DownwardAPIProjection{Items: []v1.DownwardAPIVolumeFile{
					{Path: "labels", FieldRef: &v1.ObjectFieldSelector{FieldPath: "metadata.labels"}},
					{Path: "cpu",
						ResourceFieldRef: &v1.ResourceFieldSelector{ContainerName: "c", Resource: "limits.cpu",
							Divisor: resource.MustParse("1m")}},
					{Path: "memory",
						ResourceFieldRef: &v1.ResourceFieldSelector{ContainerName: "c", Resource: "limits.memory",
							Divisor: resource.MustParse("1Mi")}},
				}}},
			}}}})
	pod.Spec.Containers = []v1.Container{
		{Name: "c", Resources: v1.ResourceRequirements{Limits: v1.ResourceList{"cpu": resource.MustParse("1500m")}}}}
	m.opts.Allocatable = func() v1.ResourceList { return v1.ResourceList{v1.ResourceMemory: resource.MustParse("7Gi")} }
	path := mustMount(t, m, pod)
	wantFile(t, filepath.Join(path, "a"), "map")
	wantFile(t, filepath.Join(path, "k"), "secret")
	wantFile(t, filepath.Join(path, "labels"), `app="web"`)
	wantFile(t, filepath.Join(path, "cpu"), "1500")
	wantFile(t, filepath.Join(path, "memory"), "7168")
	wantTmpfs(t, path)
}

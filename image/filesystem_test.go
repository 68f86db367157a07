package image

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/image"
	"github.com/moby/sys/mountinfo"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/docker/dockertest"
	"github.com/criadapter/criadapter/internal/testutil"
)

func TestFsInfo(t *testing.T) {
	root := t.TempDir()
	write(t, 1<<20, root, "overlay2", "layer", "diff", "a")
	features := dockertest.DefaultFeatures(dockertest.Docker20)
	features.Root = root
	engine := dockertest.New(
		dockertest.Options{Features: features, Images: []dockertest.Image{{Names: []string{"a"}, Size: 7}}})
	defer engine.Close()
	s := newService(t, Options{Engine: engine})
	info, err := s.FsInfo(t.Context())
	testutil.Must(t, err)
	images, containers := info.GetImageFilesystems(), info.GetContainerFilesystems()
	testutil.Require(t, len(images) == 1 && len(containers) == 1, "got %v", info)
	checkBytes(t, "images", images[0].GetUsedBytes().GetValue(), 1<<20)
	testutil.Assert(t, images[0].GetInodesUsed().GetValue() == 4 && images[0].GetTimestamp() > 0 &&
		containers[0].GetUsedBytes() != nil, "got %v", info)
	for _, fs := range []*runtimeapi.FilesystemUsage{images[0], containers[0]} {
		testutil.Assert(t, fs.GetFsId().GetMountpoint() == root,
			"the mountpoint is %q, want %q", fs.GetFsId().GetMountpoint(), root)
	}
}

// An artifact's file is linked into its image volume, and counts once.
func TestFsInfoCountsWhatCriadapterKeeps(t *testing.T) {
	root, kept := t.TempDir(), t.TempDir()
	write(t, 1<<20, root, "overlay2", "layer", "diff", "a")
	blob := write(t, 2<<20, kept, "artifacts", "blob")
	write(t, 4<<20, kept, "image-volumes", "extracted", "fs", "b")
	linked := filepath.Join(kept, "image-volumes", "linked")
	testutil.Must(t, os.Mkdir(linked, 0o700))
	testutil.Must(t, os.Link(blob, filepath.Join(linked, "c")))
	features := dockertest.DefaultFeatures(dockertest.Docker20)
	features.Root = root
	engine := dockertest.New(dockertest.Options{Features: features})
	defer engine.Close()
	s := newService(t, Options{Engine: engine,
		Kept: []string{filepath.Join(kept, "artifacts"), filepath.Join(kept, "image-volumes")}})
	info, err := s.FsInfo(t.Context())
	testutil.Must(t, err)
	checkBytes(t, "images", info.GetImageFilesystems()[0].GetUsedBytes().GetValue(), 7<<20)
	checkBytes(t, "containers", info.GetContainerFilesystems()[0].GetUsedBytes().GetValue(), 0)
}

func TestFsInfoOfADriverWithoutDirs(t *testing.T) {
	features := dockertest.DefaultFeatures(dockertest.Docker20)
	features.Root, features.StorageDriver = t.TempDir(), "zfs"
	engine := dockertest.New(dockertest.Options{Features: features, Images: []dockertest.Image{
		{Names: []string{"a"}, Size: 7}, {Names: []string{"b"}, Size: 8},
	}})
	defer engine.Close()
	info, err := newService(t, Options{Engine: engine}).FsInfo(t.Context())
	testutil.Must(t, err)
	fs := info.GetImageFilesystems()[0]
	testutil.Assert(t, fs.GetUsedBytes().GetValue() == 15 && fs.GetInodesUsed() == nil,
		"got %v, want the sum of the sizes without inodes", fs)
	containers := info.GetContainerFilesystems()
	testutil.Assert(t, len(containers) == 0, "the containers' usage is unknown, and the answer has %v", containers)
}

// With such a driver, too, the files of image volumes count, and an artifact counts once.
func TestFsInfoOfKeptFilesOnADriverWithoutDirs(t *testing.T) {
	kept := t.TempDir()
	write(t, 4<<20, kept, "image-volumes", "extracted", "fs", "b")
	write(t, 2<<20, kept, "artifacts", "blob")
	features := dockertest.DefaultFeatures(dockertest.Docker20)
	features.Root, features.StorageDriver = t.TempDir(), "btrfs"
	engine := dockertest.New(dockertest.Options{
		Features: features, Images: []dockertest.Image{{Names: []string{"a"}, Size: 1 << 20}}})
	defer engine.Close()
	s := newService(t, Options{Engine: withArtifact{engine, 2 << 20}, Kept: []string{kept}})
	info, err := s.FsInfo(t.Context())
	testutil.Must(t, err)
	fs := info.GetImageFilesystems()[0]
	checkBytes(t, "images", fs.GetUsedBytes().GetValue(), 7<<20)
	testutil.Assert(t, fs.GetInodesUsed() == nil, "got %v, want no inodes", fs)
}

// withArtifact is an engine that shows an artifact of a size in bytes, too.
type withArtifact struct {
	docker.Engine
	size int64
}

const artifactID = "sha256:" + "a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1"

func (e withArtifact) ListImages(ctx context.Context) ([]image.Summary, error) {
	listed, err := e.Engine.ListImages(ctx)
	return append(listed, image.Summary{ID: artifactID, Size: e.size}), err
}

func (e withArtifact) InspectImage(ctx context.Context, ref string) (*image.InspectResponse, error) {
	if ref != artifactID {
		return e.Engine.InspectImage(ctx, ref)
	}
	return &image.InspectResponse{ID: artifactID, Size: e.size}, nil
}

// An operator has moved the data directory of containerd. The old one is still there.
func TestMovedContainerd(t *testing.T) {
	moved, old := t.TempDir(), t.TempDir()
	features := docker.Features{Root: "/var/lib/docker", StorageDriver: "overlayfs", ContainerdImageStore: true}
	for _, root := range []string{moved, old} {
		testutil.Must(t, os.Mkdir(filepath.Join(root, "io.containerd.snapshotter.v1.overlayfs"), 0o700))
	}
	options := func(root string) string {
		layers := root + "/io.containerd.snapshotter.v1.overlayfs/snapshots"
		return "rw,lowerdir=" + layers + "/1/fs,upperdir=" + layers + "/2/fs,workdir=" + layers + "/2/work"
	}
	got := mountedRoot(features, []*mountinfo.Info{
		{Mountpoint: "/run/containerd/io.containerd.runtime.v2.task/k8s.io/1/rootfs", VFSOptions: options(old)},
		{Mountpoint: "/var/lib/docker/rootfs/overlayfs/1", VFSOptions: options(moved)},
	})
	testutil.Equal(t, got, moved, "the data directory by a container's mount")
	testutil.Equal(t, mountedRoot(features, nil), "", "the data directory without a container")
	got = mountedRoot(features, []*mountinfo.Info{
		{Mountpoint: "/var/lib/docker/rootfs/overlayfs/1", VFSOptions: options(`/data\040a\054b`)},
	})
	testutil.Equal(t, got, "/data a,b", "a data directory with a blank and a comma")
	place := storageOf(features, []string{filepath.Join(moved, "none"), moved, old})
	testutil.Equal(t, place.mountpoint, filepath.Join(moved, "io.containerd.snapshotter.v1.overlayfs"), "the place")

	config := filepath.Join(t.TempDir(), "config.toml")
	for text, want := range map[string]string{
		"version = 3\nroot = '/data/c'\n[plugins]\n": "/data/c",
		"#root = \"/x\"\n  root=\"/data/c\"\n":       "/data/c",
		"[grpc]\n  root = \"/x\"\n":                  "",
		"disabled_plugins = [\"cri\"]\n":             "",
	} {
		testutil.WriteFile(t, config, text)
		testutil.Equal(t, configuredRoot(config), want, "the data directory in %q", text)
	}
	testutil.Equal(t, configuredRoot(config+".none"), "", "the data directory without a file")
}

// The kubelet asks every few seconds, so the mounts of the whole node are read only until they show the directory.
func TestMountsAreReadOncePerConnection(t *testing.T) {
	features := docker.Features{Root: "/var/lib/docker", StorageDriver: "overlayfs", ContainerdImageStore: true}
	engine := dockertest.New(dockertest.Options{})
	defer engine.Close()
	s := newService(t, Options{Engine: engine})
	var mounts []*mountinfo.Info
	reads := 0
	s.overlays = func() ([]*mountinfo.Info, error) { reads++; return mounts, nil }
	first := func() string { return s.containerdRoots(features)[0] }
	first()
	testutil.Equal(t, first(), "/var/lib/docker/containerd/daemon", "the likeliest directory without a container")
	testutil.Equal(t, reads, 2, "reads without a container")
	for i, root := range []string{"/data/c", "/moved/c"} {
		mounts = []*mountinfo.Info{{Mountpoint: "/var/lib/docker/rootfs/overlayfs/1",
			VFSOptions: "rw,upperdir=" + root + "/io.containerd.snapshotter.v1.overlayfs/snapshots/2/fs"}}
		s.Relist()
		first()
		testutil.Equal(t, first(), root, "the likeliest directory")
		testutil.Equal(t, reads, 3+i, "reads")
	}
}

// A call reads the mounts while the engine comes back with another data directory.
func TestMountsFromBeforeAReconnection(t *testing.T) {
	features := docker.Features{Root: "/var/lib/docker", StorageDriver: "overlayfs", ContainerdImageStore: true}
	engine := dockertest.New(dockertest.Options{})
	defer engine.Close()
	s := newService(t, Options{Engine: engine})
	of := func(root string) []*mountinfo.Info {
		return []*mountinfo.Info{{Mountpoint: "/var/lib/docker/rootfs/overlayfs/1",
			VFSOptions: "rw,upperdir=" + root + "/io.containerd.snapshotter.v1.overlayfs/snapshots/2/fs"}}
	}
	s.overlays = func() ([]*mountinfo.Info, error) {
		s.Relist()
		s.overlays = func() ([]*mountinfo.Info, error) { return of("/moved/c"), nil }
		return of("/data/c"), nil
	}
	s.containerdRoots(features)
	testutil.Equal(t, s.containerdRoots(features)[0], "/moved/c", "the likeliest directory after the reconnection")
}

func TestFsInfoOfAnInvisibleEngine(t *testing.T) {
	features := dockertest.DefaultFeatures(dockertest.Docker20)
	features.Root = "/nonexistent/docker"
	engine := dockertest.New(dockertest.Options{Features: features})
	defer engine.Close()
	_, err := newService(t, Options{Engine: engine}).FsInfo(t.Context())
	testutil.Assert(t, errdefs.IsFailedPrecondition(err), "got %v, want ErrFailedPrecondition", err)
}

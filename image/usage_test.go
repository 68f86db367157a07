package image

import (
	"context"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/log"
	"github.com/moby/sys/mountinfo"
	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/internal/testutil"
)

// write makes a file with this number of bytes.
func write(t *testing.T, bytes int, elements ...string) string {
	t.Helper()
	path := filepath.Join(elements...)
	testutil.WriteFile(t, path, string(make([]byte, bytes)))
	return path
}

func TestMeasureTellsImagesFromContainers(t *testing.T) {
	root := t.TempDir()
	layers := filepath.Join(root, "overlay2")
	file := write(t, 1<<20, layers, "image-layer", "diff", "a")
	testutil.Must(t, os.Link(file, filepath.Join(layers, "image-layer", "diff", "b")))
	write(t, 2<<20, layers, "container-layer", "diff", "c")
	write(t, 1<<19, layers, "container-layer-init", "diff", "d")
	mounts := filepath.Join(root, "image", "overlay2", "layerdb", "mounts")
	for name, content := range map[string]string{"mount-id": "container-layer", "init-id": "container-layer-init\n"} {
		testutil.WriteFile(t, filepath.Join(mounts, "0123", name), content)
	}
	place := storageOf(docker.Features{Root: root, StorageDriver: "overlay2"}, nil)
	testutil.Require(t, place.mounts == mounts && slices.Equal(place.layers, []string{layers}),
		"the storage is %+v", place)
	got, err := new(layerSizes).measure(t.Context(), place)
	testutil.Must(t, err)
	// On some filesystems directories take blocks, too. So the files' bytes are the lower bound, and the upper bound is
	// a little more.
	checkBytes(t, "images", got.images.bytes, 1<<20)
	checkBytes(t, "containers", got.containers.bytes, 2<<20+1<<19)
	// overlay2, image-layer, diff, and one file of two names.
	testutil.Assert(t, got.images.inodes == 4, "images take %d inodes, want 4", got.images.inodes)
	// Two layers, each with diff and one file.
	testutil.Assert(t, got.containers.inodes == 6, "containers take %d inodes, want 6", got.containers.inodes)
}

func checkBytes(t *testing.T, what string, got, files uint64) {
	t.Helper()
	testutil.Assert(t, got >= files && got <= files+1<<18, "%s take %d bytes, want about %d", what, got, files)
}

func TestMeasureWithoutRecordsOfContainers(t *testing.T) {
	dir := t.TempDir()
	write(t, 1<<20, dir, "snapshots", "1", "fs", "a")
	got, err := new(layerSizes).measure(t.Context(), storage{layers: []string{dir, filepath.Join(dir, "missing")}})
	testutil.Must(t, err)
	checkBytes(t, "images", got.images.bytes, 1<<20)
	testutil.Assert(t, got.images == got.containers,
		"images %+v and containers %+v cannot be distinguished and must be equal", got.images, got.containers)
}

// A layer of an image is walked once, and not while the engine unpacks it. Layers of containers are walked each time.
func TestMeasureRemembersCommittedLayers(t *testing.T) {
	root := t.TempDir()
	place := storageOf(docker.Features{Root: root, StorageDriver: "overlay2"}, nil)
	layers := place.layers[0]
	for _, layer := range []string{"committed", "unpacked", "own"} {
		write(t, 1<<20, layers, layer, "diff", "a")
	}
	for path, name := range map[string]string{
		filepath.Join(filepath.Dir(place.mounts), "sha256", "0123", "cache-id"): "committed",
		filepath.Join(place.mounts, "c", "mount-id"):                            "own",
	} {
		testutil.WriteFile(t, path, name)
	}
	var sizes layerSizes
	measure := func(images, containers uint64) {
		t.Helper()
		got, err := sizes.measure(t.Context(), place)
		testutil.Must(t, err)
		checkBytes(t, "images", got.images.bytes, images)
		checkBytes(t, "containers", got.containers.bytes, containers)
	}
	measure(2<<20, 1<<20)
	for _, layer := range []string{"committed", "unpacked", "own"} {
		write(t, 1<<20, layers, layer, "diff", "b")
	}
	measure(3<<20, 2<<20) // without the new file in the committed layer, which is not walked again
	testutil.Must(t, os.RemoveAll(filepath.Join(layers, "committed")))
	measure(2<<20, 2<<20)
	testutil.Assert(t, len(sizes.known) == 0, "the size of a removed layer is kept: %v", sizes.known)
}

// With the containerd image store the layers below a mounted one never change.
func TestParentsOfMountedLayers(t *testing.T) {
	const snapshots = "/c/io.containerd.snapshotter.v1.overlayfs/snapshots"
	layers := map[string]bool{}
	addParents(layers, []*mountinfo.Info{
		{VFSOptions: "rw,lowerdir=" + snapshots + "/3/fs:" + snapshots + "/1/fs,upperdir=" + snapshots +
			"/7/fs,workdir=" + snapshots + "/7/work"},
		{VFSOptions: "rw,lowerdir=4/fs:2/fs,upperdir=" + snapshots + "/8/fs,workdir=" + snapshots + "/8/work"},
		{VFSOptions: "rw,lowerdir+=" + snapshots + "/5/fs,upperdir=" + snapshots + "/9/fs"},
		{VFSOptions: "rw,lowerdir=/elsewhere/6/fs,upperdir=/elsewhere/10/fs"},
		{VFSOptions: "rw,lowerdir=/view/11/fs:/view/12/fs"},
	}, snapshots)
	got := slices.Sorted(maps.Keys(layers))
	var want []string
	for _, n := range []string{"1", "2", "3", "4", "5"} {
		want = append(want, snapshots+"/"+n)
	}
	testutil.Assert(t, slices.Equal(got, want), "got %q, want %q", got, want)

	layers = map[string]bool{}
	addParents(layers, []*mountinfo.Info{
		{VFSOptions: `rw,lowerdir=/a\040b\054c/1/fs,upperdir=/a\040b\054c/2/fs`},
	}, "/a b,c")
	testutil.Assert(t, layers["/a b,c/1"], "below a directory with a blank and a comma: %v", layers)
}

// Files of two filesystems may have the same inode number.
func TestLinksOfTwoFilesystems(t *testing.T) {
	w := walk{ctx: t.Context(), links: make(map[inode]bool)}
	for _, device := range []uint64{1, 2, 1} {
		file := linkedFile{stat: syscall.Stat_t{Dev: device, Ino: 7, Nlink: 2}}
		testutil.Must(t, w.add(file, device, &w.images))
	}
	testutil.Equal(t, w.images.inodes, 2, "the counted files")
}

// linkedFile is a file with a given stat.
type linkedFile struct {
	fs.DirEntry
	fs.FileInfo
	stat syscall.Stat_t
}

func (f linkedFile) Info() (fs.FileInfo, error) { return f, nil }
func (f linkedFile) IsDir() bool                { return false }
func (f linkedFile) Name() string               { return "file" }
func (f linkedFile) Sys() any                   { return &f.stat }

func TestMeasureEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := new(layerSizes).measure(ctx, storage{layers: []string{t.TempDir()}})
	testutil.Assert(t, err != nil, "a cancelled measurement succeeded")
}

func TestMeterMeasuresOnceInAWhile(t *testing.T) {
	dir := t.TempDir()
	meter := newUsageMeter()
	defer meter.close()
	place := storage{layers: []string{dir}}
	first, ok := meter.get(t.Context(), place)
	testutil.Require(t, ok, "no measurement of a small directory")
	write(t, 1<<20, dir, "more")
	again, ok := meter.get(t.Context(), place)
	testutil.Assert(t, ok && again == first, "measured again at once: %+v, then %+v", first, again)
	meter.mu.Lock()
	meter.due = time.Time{}
	meter.mu.Unlock()
	// The due call answers with the last measurement, and measures in the background.
	testutil.Until(t, "the new file is counted", func() bool {
		now, _ := meter.get(t.Context(), place)
		return now.images.bytes >= 1<<20
	})
}

func TestMeterWithoutDirs(t *testing.T) {
	meter := newUsageMeter()
	defer meter.close()
	_, ok := meter.get(t.Context(), storageOf(docker.Features{Root: "/", StorageDriver: "zfs"}, nil))
	testutil.Assert(t, !ok, "figures of a driver whose layers are not in directories")
}

// A disk is measured again soon, even if its walk takes longer than the longest pause. A measurement from hours ago
// would be useless.
func TestMeterOfAHugeDisk(t *testing.T) {
	for _, takes := range []time.Duration{time.Second, 20 * time.Second, 25 * time.Minute} {
		t.Run(takes.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				meter := newUsageMeter()
				defer meter.close()
				meter.walk = slowWalk(takes)
				place := storage{layers: []string{"/layers"}}
				meter.get(t.Context(), place)
				time.Sleep(takes)
				synctest.Wait()
				first, ok := meter.get(t.Context(), place)
				testutil.Require(t, ok && first.images.bytes == 4711, "never measured: %+v", first)
				pause := max(3*takes, 5*time.Minute)
				time.Sleep(pause + time.Second)
				meter.get(t.Context(), place) // begins another one
				time.Sleep(takes)
				synctest.Wait()
				again, _ := meter.get(t.Context(), place)
				testutil.Assert(t, again.taken.After(first.taken),
					"not measured again %v after a measurement that took %v", pause, takes)
			})
		})
	}
}

// slowWalk takes its time, and ends with its context as a walk does.
func slowWalk(takes time.Duration) func(context.Context, storage) (usage, error) {
	return func(ctx context.Context, _ storage) (usage, error) {
		select {
		case <-time.After(takes):
			return usage{taken: time.Now(), images: footprint{bytes: 4711}}, nil
		case <-ctx.Done():
			return usage{}, ctx.Err()
		}
	}
}

func TestClosedMeterMeasuresNothing(t *testing.T) {
	meter := newUsageMeter()
	meter.close()
	_, ok := meter.get(t.Context(), storage{layers: []string{t.TempDir()}})
	testutil.Assert(t, !ok, "a closed meter measured")
}

func TestCloseIsNoFailureOfAMeasurement(t *testing.T) {
	meter := newUsageMeter()
	logger, hook := logtest.NewNullLogger()
	meter.ctx = log.WithLogger(meter.ctx, logrus.NewEntry(logger))
	meter.walk = slowWalk(time.Hour)
	meter.refresh(storage{layers: []string{t.TempDir()}})
	meter.close()
	testutil.Assert(t, len(hook.AllEntries()) == 0, "the log has %v", hook.AllEntries())
}

// close waits for a measurement that a concurrent call is just beginning.
func TestCloseOfAMeterInUse(t *testing.T) {
	meter := newUsageMeter()
	meter.mu.Lock() // like a call that begins a measurement because the meter is not closed yet
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		meter.close()
	}()
	time.Sleep(50 * time.Millisecond)
	testutil.Assert(t, meter.ctx.Err() == nil, "the meter was closed in the middle of a call")
	meter.mu.Unlock()
	<-closed
}

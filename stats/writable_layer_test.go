package stats

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/state"
)

// newLayer makes a writable layer with 40 KiB in 4 inodes: the directory, a subdirectory, a file with two names and an
// empty file.
func newLayer(t *testing.T) (root, upper string) {
	t.Helper()
	root = t.TempDir()
	upper = filepath.Join(root, "overlay2", "0123", "diff")
	file := filepath.Join(upper, "below", "file")
	testutil.WriteFile(t, file, strings.Repeat("\x00", 40<<10))
	testutil.Must(t, os.Link(file, filepath.Join(upper, "link")))
	testutil.Must(t, os.WriteFile(filepath.Join(upper, "empty"), nil, 0o644))
	return root, upper
}

func TestCountDir(t *testing.T) {
	_, upper := newLayer(t)
	got, err := countDir(t.Context(), upper)
	testutil.Must(t, err)
	testutil.Assert(t, got.inodes == 4 && got.bytes >= 40<<10 && got.bytes <= 64<<10, "got %+v", got)
	_, err = countDir(t.Context(), filepath.Join(upper, "missing"))
	testutil.Assert(t, errors.Is(err, os.ErrNotExist), "a missing directory: %v", err)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = countDir(gone, upper)
	testutil.Assert(t, errors.Is(err, context.Canceled), "cancelled: %v", err)
}

// The first answer has no count, because the call does not wait for it. A later answer has one. The layer is not
// counted again before the count is old.
func TestWritableLayer(t *testing.T) {
	n := newTestNode(t, v1Cgroupfs)
	root, upper := newLayer(t)
	n.container.Meta.UpperDir = upper
	n.cache.PutContainer(n.container)
	if layer := n.containers(t)[0].WritableLayer; layer != nil {
		t.Errorf("the first call waited for %v", layer)
	}
	n.layers.work.Wait()
	layer := n.containers(t)[0].WritableLayer
	testutil.Assert(t, layer.GetFsId().GetMountpoint() == root && layer.GetInodesUsed().GetValue() == 4 &&
		layer.GetUsedBytes().GetValue() >= 40<<10, "got %v", layer)
	testutil.Must(t, os.WriteFile(filepath.Join(upper, "more"), make([]byte, 1<<20), 0o644))
	n.containers(t)
	n.layers.work.Wait()
	again := n.containers(t)[0].WritableLayer
	testutil.Assert(t, again.GetTimestamp() == layer.GetTimestamp(), "counted again at once")
	n.layers.mu.Lock()
	n.layers.layers["c1"].due = time.Now()
	n.layers.mu.Unlock()
	n.containers(t)
	n.layers.work.Wait()
	again = n.containers(t)[0].WritableLayer
	testutil.Assert(t, again.GetUsedBytes().GetValue() >= 1<<20 && again.GetInodesUsed().GetValue() == 5,
		"after a while: %v", again)

	testutil.Must(t, os.RemoveAll(root))
	n.layers.mu.Lock()
	n.layers.layers["c1"].due = time.Now()
	n.layers.mu.Unlock()
	n.containers(t)
	n.layers.work.Wait()
	last := n.containers(t)[0].WritableLayer
	testutil.Assert(t, last.GetInodesUsed().GetValue() == 5, "the last count is lost: %v", last)
	n.cache.RemoveContainer("c1")
	n.containers(t)
	testutil.Assert(t, len(n.layers.layers) == 0, "the layer of a removed container is kept")
}

// If the engine does not report the directory, it comes from the mounts of the running container.
func TestWritableLayerFromTheMounts(t *testing.T) {
	n := newTestNode(t, v2Systemd)
	root, upper := newLayer(t)
	n.write(t, "5000002/mountinfo", "1 2 0:40 / / rw - overlay overlay rw,lowerdir=/l,upperdir="+upper+",workdir=/w\n")
	n.containers(t)
	n.layers.work.Wait()
	layer := n.containers(t)[0].WritableLayer
	testutil.Assert(t, layer.GetFsId().GetMountpoint() == root && layer.GetInodesUsed().GetValue() == 4,
		"got %v", layer)
}

func TestWritableLayerWithoutADirectory(t *testing.T) {
	n := newTestNode(t, v2Systemd)
	for range 2 {
		layer := n.containers(t)[0].WritableLayer
		testutil.Assert(t, layer == nil, "got %v", layer)
		n.layers.work.Wait()
	}
}

// A layer without its own directory has no count. The count of the image does not stand in for it. The log says so
// once.
func TestWritableLayerOfOtherStorageDrivers(t *testing.T) {
	for driver, mount := range map[string]string{
		"vfs":   "1 2 8:1 /var/lib/docker/vfs/dir/0123 / rw - ext4 /dev/sda1 rw\n",
		"btrfs": "1 2 0:40 /btrfs/subvolumes/0123 / rw - btrfs /dev/sda1 rw\n",
		"zfs":   "1 2 0:40 / / rw - zfs pool/docker/0123 rw,xattr\n",
	} {
		t.Run(driver, func(t *testing.T) {
			var said bytes.Buffer
			logrus.SetOutput(&said)
			defer logrus.SetOutput(io.Discard)
			n := newTestNode(t, v2Systemd)
			n.write(t, "5000002/mountinfo", mount)
			n.addContainer(t, "k1", containerPID+1)
			n.write(t, "5000003/mountinfo", mount)
			for range 2 {
				for _, container := range n.containers(t) {
					testutil.Assert(t, container.WritableLayer == nil, "got %v", container.WritableLayer)
				}
				n.layers.work.Wait()
			}
			times := strings.Count(said.String(), "writable layers are not counted")
			testutil.Assert(t, times == 1, "said %d times: %s", times, &said)
		})
	}
}

// At most countWorkers goroutines count layers, and they end.
func TestLayersAreCountedByFew(t *testing.T) {
	_, upper := newLayer(t)
	m := newLayerMeter("/proc")
	ended := testutil.NoMoreGoroutines(t)
	before := runtime.NumGoroutine()
	for _, id := range []string{"a", "b", "c", "d", "e", "f"} {
		for range 3 {
			m.get(&state.Container{ID: id, Meta: state.ContainerMeta{UpperDir: upper}})
			extra := runtime.NumGoroutine() - before
			testutil.Assert(t, extra <= countWorkers, "%d goroutines", extra)
		}
	}
	m.close()
	ended()
	m.get(&state.Container{ID: "late", Meta: state.ContainerMeta{UpperDir: upper}})
	m.work.Wait()
	testutil.Assert(t, m.counting == 0 && !m.layers["late"].queued, "it counts after close")
}

// A layer that takes minutes to count is counted, and counted again later.
func TestHugeLayerIsCounted(t *testing.T) {
	for _, takes := range []time.Duration{time.Second, 7 * time.Second, 25 * time.Minute} {
		t.Run(takes.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newLayerMeter("/proc")
				defer m.close()
				m.walk = slowWalk(takes)
				container := &state.Container{ID: "a", Meta: state.ContainerMeta{UpperDir: t.TempDir()}}
				m.get(container)
				time.Sleep(takes)
				synctest.Wait()
				first, ok := m.get(container)
				testutil.Require(t, ok && first.bytes == 4711, "never counted: %+v", first)
				pause := max(3*takes, 4*time.Minute)
				time.Sleep(pause + time.Second)
				m.get(container) // starts another count
				time.Sleep(takes)
				synctest.Wait()
				again, _ := m.get(container)
				testutil.Assert(t, again.taken.After(first.taken),
					"not counted again %v after a count that took %v", pause, takes)
			})
		})
	}
}

// slowWalk returns a walk of this duration. It ends with its context like countDir.
func slowWalk(takes time.Duration) func(context.Context, string) (diskUsage, error) {
	return func(ctx context.Context, _ string) (diskUsage, error) {
		select {
		case <-time.After(takes):
			return diskUsage{bytes: 4711, inodes: 1}, nil
		case <-ctx.Done():
			return diskUsage{}, ctx.Err()
		}
	}
}

// One slow layer does not delay the counts of the others.
func TestHugeLayerKeepsNoOtherWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newLayerMeter("/proc")
		defer m.close()
		huge := t.TempDir()
		slow, quick := slowWalk(time.Hour), slowWalk(time.Second)
		m.walk = func(ctx context.Context, dir string) (diskUsage, error) {
			if dir == huge {
				return slow(ctx, dir)
			}
			return quick(ctx, dir)
		}
		m.get(&state.Container{ID: "huge", Meta: state.ContainerMeta{UpperDir: huge}})
		small := &state.Container{ID: "small", Meta: state.ContainerMeta{UpperDir: t.TempDir()}}
		m.get(small)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		_, ok := m.get(small)
		testutil.Assert(t, ok, "still waiting for the huge one")
	})
}

func TestDeviceNames(t *testing.T) {
	names := newDeviceNames(blockDevices)
	testutil.Equal(t, names.name(device{0, 999999}), "0:999999", "the name")
	entries, err := os.ReadDir("/sys/dev/block")
	if err != nil || len(entries) == 0 {
		t.Skip("this machine has no block device")
	}
	number, ok := parseDevice([]byte(entries[0].Name()))
	testutil.Require(t, ok, "device %q", entries[0].Name())
	for range 2 {
		got := names.name(number)
		testutil.Assert(t, filepath.Dir(got) == "/dev", "got %q", got)
	}
}

package stats

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/criadapter/criadapter/state"
)

// newLayer makes a writable layer with 40 KiB in 4 inodes: the folder, one
// below, a file with two names and an empty one.
func newLayer(t *testing.T) (root, upper string) {
	t.Helper()
	root = t.TempDir()
	upper = filepath.Join(root, "overlay2", "0123", "diff")
	must(t, os.MkdirAll(filepath.Join(upper, "below"), 0o755))
	file := filepath.Join(upper, "below", "file")
	must(t, os.WriteFile(file, make([]byte, 40<<10), 0o644))
	must(t, os.Link(file, filepath.Join(upper, "link")))
	must(t, os.WriteFile(filepath.Join(upper, "empty"), nil, 0o644))
	return root, upper
}

func TestCountFolder(t *testing.T) {
	_, upper := newLayer(t)
	got, err := countFolder(t.Context(), upper)
	must(t, err)
	if got.inodes != 4 || got.bytes < 40<<10 || got.bytes > 64<<10 {
		t.Errorf("got %+v", got)
	}
	if _, err := countFolder(t.Context(), filepath.Join(upper, "missing")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing folder: %v", err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := countFolder(gone, upper); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// The first answer has no count, because nobody waits for it; a later one has,
// and it is not counted again before it is old.
func TestWritableLayer(t *testing.T) {
	n := newTestNode(t, v1Cgroupfs)
	root, upper := newLayer(t)
	n.container.Meta.UpperDir = upper
	n.mirror.PutContainer(n.container)
	if layer := n.containers(t)[0].WritableLayer; layer != nil {
		t.Errorf("the first call waited for %v", layer)
	}
	n.layers.work.Wait()
	layer := n.containers(t)[0].WritableLayer
	if layer.GetFsId().GetMountpoint() != root || layer.GetInodesUsed().GetValue() != 4 || layer.GetUsedBytes().GetValue() < 40<<10 {
		t.Errorf("got %v", layer)
	}
	must(t, os.WriteFile(filepath.Join(upper, "more"), make([]byte, 1<<20), 0o644))
	n.containers(t)
	n.layers.work.Wait()
	if again := n.containers(t)[0].WritableLayer; again.GetTimestamp() != layer.GetTimestamp() {
		t.Error("counted again at once")
	}
	n.layers.mu.Lock()
	n.layers.layers["c1"].due = time.Now()
	n.layers.mu.Unlock()
	n.containers(t)
	n.layers.work.Wait()
	if again := n.containers(t)[0].WritableLayer; again.GetUsedBytes().GetValue() < 1<<20 || again.GetInodesUsed().GetValue() != 5 {
		t.Errorf("after a while: %v", again)
	}

	must(t, os.RemoveAll(root))
	n.layers.mu.Lock()
	n.layers.layers["c1"].due = time.Now()
	n.layers.mu.Unlock()
	n.containers(t)
	n.layers.work.Wait()
	if last := n.containers(t)[0].WritableLayer; last.GetInodesUsed().GetValue() != 5 {
		t.Errorf("the last count is lost: %v", last)
	}
	n.mirror.RemoveContainer("c1")
	n.containers(t)
	if len(n.layers.layers) != 0 {
		t.Error("not forgotten")
	}
}

// Where the engine does not tell the folder, the mounts of a running container
// do.
func TestWritableLayerFromTheMounts(t *testing.T) {
	n := newTestNode(t, v2Systemd)
	root, upper := newLayer(t)
	n.write(t, "5000002/mountinfo", "1 2 0:40 / / rw - overlay overlay rw,lowerdir=/l,upperdir="+upper+",workdir=/w\n")
	n.containers(t)
	n.layers.work.Wait()
	if layer := n.containers(t)[0].WritableLayer; layer.GetFsId().GetMountpoint() != root || layer.GetInodesUsed().GetValue() != 4 {
		t.Errorf("got %v", layer)
	}
}

func TestWritableLayerThatNobodyTells(t *testing.T) {
	n := newTestNode(t, v2Systemd)
	for range 2 {
		if layer := n.containers(t)[0].WritableLayer; layer != nil {
			t.Errorf("got %v", layer)
		}
		n.layers.work.Wait()
	}
}

// However many containers there are, one goroutine counts, and it ends.
func TestLayersAreCountedOneByOne(t *testing.T) {
	_, upper := newLayer(t)
	m := newLayerMeter("/proc")
	before := runtime.NumGoroutine()
	for _, id := range []string{"a", "b", "c", "d", "e", "f"} {
		for range 3 {
			m.get(&state.Container{ID: id, Meta: state.ContainerMeta{UpperDir: upper}})
			if extra := runtime.NumGoroutine() - before; extra > 1 {
				t.Errorf("%d goroutines", extra)
			}
		}
	}
	m.close()
	if extra := runtime.NumGoroutine() - before; extra > 0 {
		t.Errorf("%d goroutines left", extra)
	}
	m.get(&state.Container{ID: "late", Meta: state.ContainerMeta{UpperDir: upper}})
	m.work.Wait()
	if m.counting || m.layers["late"].queued {
		t.Error("counts after close")
	}
}

func TestDeviceNames(t *testing.T) {
	names := newDeviceNames()
	if got := names.name(device{0, 999999}); got != "0:999999" {
		t.Errorf("got %q", got)
	}
	entries, err := os.ReadDir("/sys/dev/block")
	if err != nil || len(entries) == 0 {
		t.Skip("this machine has no block device")
	}
	number, ok := parseDevice([]byte(entries[0].Name()))
	if !ok {
		t.Fatalf("device %q", entries[0].Name())
	}
	for range 2 {
		if got := names.name(number); filepath.Dir(got) != "/dev" {
			t.Errorf("got %q", got)
		}
	}
}

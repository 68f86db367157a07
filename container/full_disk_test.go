package container

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/internal/testutil"
)

// onSmallDisk moves the node's checkpoint to a disk of its own, and returns functions that fill it up and free it
// again.
func (n *node) onSmallDisk() (fill, free func()) {
	n.t.Helper()
	dir := filepath.Join(n.dir, "small-disk")
	testutil.Must(n.t, os.Mkdir(dir, 0o700))
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=256k"); err != nil {
		if os.Getuid() != 0 && errors.Is(err, unix.EPERM) {
			n.t.Skip("needs root to mount a small disk")
		}
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() {
		testutil.Check(n.t, unix.Unmount(dir, unix.MNT_DETACH))
	})
	store, err := checkpoint.Open(filepath.Join(dir, "checkpoint"))
	testutil.Must(n.t, err)
	n.store = store
	n.restart(func() {})
	filler := filepath.Join(dir, "filler")
	fill = func() {
		err := os.WriteFile(filler, make([]byte, 1<<20), 0o600)
		testutil.Require(n.t, errors.Is(err, unix.ENOSPC), "filling the disk: %v", err)
	}
	return fill, func() {
		testutil.Must(n.t, os.Remove(filler))
	}
}

// The kubelet removes containers to make room, so a full disk must not prevent their removal.
func TestRemoveOnAFullDisk(t *testing.T) {
	n, engine := newFakeNode(t)
	fill, free := n.onSmallDisk()
	pod, id := n.runningInPod()
	fill()
	for range 2 { // it is idempotent
		testutil.Must(t, n.Remove(t.Context(), id), "Remove")
	}
	_, err := n.cache.Snapshot().Container(id)
	testutil.Assert(t, err != nil, "the removed container is still shown")
	_, err = engine.InspectContainer(t.Context(), id)
	testutil.Assert(t, err != nil, "the engine still has the container")
	free()
	n.restart(func() {})
	// A write during fill may have left room for the record of the container's end. Then the container is listed again.
	testutil.Must(t, n.Remove(t.Context(), id), "Remove after the restart")
	n.watch()
	testutil.Until(t, "the record is dropped", func() bool {
		record, err := n.store.Load(t.Context(), pod)
		testutil.Must(t, err)
		return len(record.Containers) == 0
	})
}

// On a full disk no container is made: criadapter would not know it after a restart.
func TestCreateOnAFullDisk(t *testing.T) {
	n, _ := newFakeNode(t)
	fill, _ := n.onSmallDisk()
	pod := n.pod()
	fill()
	_, err := n.Create(t.Context(), pod, n.config("sleep"), nil)
	testutil.Assert(t, errors.Is(err, unix.ENOSPC), "Create: %v", err)
	n.wantNothing(pod)
}

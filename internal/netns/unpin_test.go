package netns

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestUnpinWhatIsNotPinned(t *testing.T) {
	dir := t.TempDir()
	left := filepath.Join(dir, "left")
	testutil.Must(t, os.WriteFile(left, nil, 0o444))
	for name, path := range map[string]string{
		"file without a mount": left,
		"missing file":         filepath.Join(dir, "missing"),
		"missing directory":    filepath.Join(dir, "missing", "pod"),
	} {
		t.Run(name, func(t *testing.T) {
			if os.Getuid() != 0 && path == left {
				t.Skip("needs root to unmount")
			}
			testutil.Check(t, Open(path).Unpin())
			_, err := os.Lstat(path)
			testutil.Assert(t, os.IsNotExist(err), "%s is still there (%v)", path, err)
		})
	}
}

func TestUnpinTouchesNothingElse(t *testing.T) {
	dir := t.TempDir()
	sub, notes, link := filepath.Join(dir, "sub"), filepath.Join(dir, "notes"), filepath.Join(dir, "link")
	testutil.Must(t, os.Mkdir(sub, 0o755))
	testutil.Must(t, os.WriteFile(notes, []byte("text"), 0o644))
	testutil.Must(t, os.Symlink("/proc/self/ns/net", link))
	for _, path := range []string{sub, notes, link, "/proc/self/ns/net", "/proc", "/"} {
		err := Open(path).Unpin()
		testutil.Assert(t, errdefs.IsFailedPrecondition(err),
			"Unpin of %s returned %v, want FailedPrecondition", path, err)
		_, err = os.Lstat(path)
		testutil.Check(t, err)
	}
	testutil.Fails(t, (Handle{}).Unpin(), errdefs.IsInvalidArgument, "Unpin without a path")
}

func TestUnpinWhileInUse(t *testing.T) {
	dir := newDir(t)
	pid, _ := startPod(t)
	h := mustPin(t, pid, dir, "pod")
	// A racing program may have stacked a second mount.
	testutil.Must(t, unix.Mount(h.path, h.path, "", unix.MS_BIND, ""))
	err := h.Do(t.Context(), func() error {
		if err := h.Unpin(); err != nil {
			return err
		}
		got, want := namespaceOf(t, own), podNamespace(t, pid)
		testutil.Assert(t, got == want, "f is now in %s, want %s", got, want)
		return nil
	})
	testutil.Must(t, err)
	requireFiles(t, dir)
	left := mounts(t, "self", h.path)
	testutil.Assert(t, len(left) == 0, "still mounted: %v", left)
}

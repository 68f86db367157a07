package logs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"

	"github.com/criadapter/criadapter/internal/testutil"
)

// A link that another writer of the log directory makes does not lead the log elsewhere.
func TestLogStaysInItsDirectory(t *testing.T) {
	for name, plant := range map[string]func(root, outside string) error{
		"the container's directory": func(root, outside string) error {
			return os.Symlink(outside, filepath.Join(root, "c"))
		},
		"a relative link": func(root, outside string) error {
			up, err := filepath.Rel(root, outside)
			return errors.Join(err, os.Symlink(up, filepath.Join(root, "c")))
		},
		"a link to a link": func(root, outside string) error {
			return errors.Join(os.Symlink("d", filepath.Join(root, "c")), os.Symlink(outside, filepath.Join(root, "d")))
		},
		"the log itself": func(root, outside string) error {
			return errors.Join(os.Mkdir(filepath.Join(root, "c"), 0o755),
				os.Symlink(filepath.Join(outside, "0.log"), filepath.Join(root, "c", "0.log")))
		},
		"a dangling link": func(root, outside string) error {
			return os.Symlink(filepath.Join(outside, "not", "there"), filepath.Join(root, "c"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			root, outside := t.TempDir(), t.TempDir()
			testutil.Must(t, plant(root, outside))
			o, err := openOutput(root, filepath.Join(root, "c", "0.log"))
			if err == nil {
				o.file.Close()
			}
			testutil.Assert(t, errdefs.IsFailedPrecondition(err), "got %v, want ErrFailedPrecondition", err)
			wantFiles(t, outside, 0)
		})
	}
}

// Links above a pod's log directory belong to the operator. Links in it may not lead out of it.
func TestLogDirectoryMayBeALink(t *testing.T) {
	dir := t.TempDir()
	testutil.Must(t, os.Mkdir(filepath.Join(dir, "disk"), 0o755))
	testutil.Must(t, os.Symlink("disk", filepath.Join(dir, "pods")))
	root := filepath.Join(dir, "pods", "pod")
	testutil.Must(t, MakeDirectory(root, filepath.Join(root, "real")))
	testutil.Must(t, os.Symlink("real", filepath.Join(root, "c")))
	o, err := openOutput(root, filepath.Join(root, "c", "0.log"))
	testutil.Must(t, err)
	defer o.file.Close()
	_, err = os.Stat(filepath.Join(dir, "disk", "pod", "real", "0.log"))
	testutil.Check(t, err)
}

// A log is opened while another process exchanges its directory for a link to another one, and the log for a link to a
// file.
func TestLogStaysInItsDirectoryUnderRaces(t *testing.T) {
	const rounds = 3000
	root, outside := t.TempDir(), t.TempDir()
	target := filepath.Join(outside, "target")
	testutil.Must(t, errors.Join(
		os.WriteFile(target, []byte("precious"), 0o600),
		os.Mkdir(filepath.Join(root, "c"), 0o755),
		os.Symlink(outside, filepath.Join(root, "evil")),
		os.Symlink(target, filepath.Join(root, "evil.log")),
	))
	path := filepath.Join(root, "c", "0.log")
	end := make(chan struct{})
	var hostile sync.WaitGroup
	hostile.Go(func() {
		for !closed(end) {
			_ = unix.Renameat2(unix.AT_FDCWD, filepath.Join(root, "c"), unix.AT_FDCWD, filepath.Join(root, "evil"),
				unix.RENAME_EXCHANGE)
			_ = unix.Renameat2(unix.AT_FDCWD, path, unix.AT_FDCWD, filepath.Join(root, "evil.log"),
				unix.RENAME_EXCHANGE)
		}
	})
	opened := 0
	for range rounds {
		o, err := openOutput(root, path)
		if err != nil {
			continue // a link was in the way
		}
		opened++
		_, err = o.file.WriteString("output\n")
		testutil.Check(t, err)
		o.file.Close()
	}
	close(end)
	hostile.Wait()
	testutil.Holds(t, target, "precious")
	wantFiles(t, outside, 1)
	testutil.Assert(t, opened > 0, "none of %d tries opened the log", rounds)
	t.Logf("%d of %d tries opened the log", opened, rounds)
}

// A link at the path of the copy is not followed.
func TestCopyOfALinkedLogIsANewFile(t *testing.T) {
	enginePath, logPath := linked(t, "first\n")
	precious := filepath.Join(t.TempDir(), "precious")
	testutil.Must(t, os.WriteFile(precious, []byte("precious"), 0o600))
	testutil.Must(t, os.Symlink(precious, hidden(logPath, copySuffix)))
	err := moveOut(t.Context(), enginePath, logPath, hidden(logPath, copySuffix))
	testutil.Assert(t, errors.Is(err, fs.ErrExist), "got %v", err)
	testutil.Holds(t, precious, "precious")
	testutil.Holds(t, enginePath, "first\n")
}

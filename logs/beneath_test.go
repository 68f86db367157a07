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

// A link in place of a container's log directory does not lead the changes of a linked log elsewhere. The other
// directory has files that each change would replace or remove.
func TestLinkedLogStaysInItsDirectory(t *testing.T) {
	for name, change := range map[string]func(enginePath, root, logPath string) error{
		"Link":        Link,
		"RestoreLink": RestoreLink,
		"Relink":      Relink,
		"IsLinked": func(enginePath, root, logPath string) error {
			_, err := IsLinked(enginePath, root, logPath)
			return err
		},
		"ReopenLink": func(enginePath, root, logPath string) error {
			return ReopenLink(t.Context(), enginePath, root, logPath, os.Getpid())
		},
		"Unlink": func(enginePath, root, logPath string) error {
			_, err := Unlink(enginePath, root, logPath, 0)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			root, outside, enginePath := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "c-json.log")
			testutil.WriteFile(t, enginePath, linkedRecords(1, 10))
			for _, file := range []string{"0.log", "0.log.20240101-000000", ".0.log", ".0.log.copy", ".0.log.new"} {
				testutil.WriteFile(t, filepath.Join(outside, file), linkedRecords(1, 10))
			}
			testutil.Must(t, os.Symlink(outside, filepath.Join(root, "c")))
			err := change(enginePath, root, filepath.Join(root, "c", "0.log"))
			testutil.Fails(t, err, errdefs.IsFailedPrecondition, "%s", name)
			wantFiles(t, outside, 5)
			for _, file := range []string{"0.log", "0.log.20240101-000000", ".0.log", ".0.log.copy", ".0.log.new"} {
				testutil.Holds(t, filepath.Join(outside, file), linkedRecords(1, 10))
			}
		})
	}
}

// A directory that becomes a link between two steps of a change does not lead the later step elsewhere.
func TestLinkedLogStaysInItsDirectoryBetweenSteps(t *testing.T) {
	root, outside := t.TempDir(), t.TempDir()
	enginePath, logPath := filepath.Join(t.TempDir(), "c-json.log"), filepath.Join(root, "c", "0.log")
	testutil.WriteFile(t, enginePath, linkedRecords(1, 10))
	testutil.Must(t, Link(enginePath, root, logPath))
	top, name, err := openRoot(root, logPath)
	testutil.Must(t, err)
	defer top.Close()
	rename(t, filepath.Join(root, "c"), filepath.Join(root, "d"))
	testutil.Must(t, os.Symlink(outside, filepath.Join(root, "c")))
	testutil.Assert(t, putLink(top, enginePath, name) != nil, "a link was put into another directory")
	err = moveOut(t.Context(), top, enginePath, name, hidden(name, copySuffix))
	testutil.Assert(t, err != nil, "a copy was made in another directory")
	wantFiles(t, outside, 0)
	testutil.Holds(t, enginePath, linkedRecords(1, 10))
}

// A link at the path of the copy is not followed.
func TestCopyOfALinkedLogIsANewFile(t *testing.T) {
	enginePath, logPath := linked(t, "first\n")
	precious := filepath.Join(t.TempDir(), "precious")
	testutil.Must(t, os.WriteFile(precious, []byte("precious"), 0o600))
	testutil.Must(t, os.Symlink(precious, hidden(logPath, copySuffix)))
	top, name, err := openRoot("", logPath)
	testutil.Must(t, err)
	defer top.Close()
	err = moveOut(t.Context(), top, enginePath, name, hidden(name, copySuffix))
	testutil.Assert(t, errors.Is(err, fs.ErrExist), "got %v", err)
	testutil.Holds(t, precious, "precious")
	testutil.Holds(t, enginePath, "first\n")
}

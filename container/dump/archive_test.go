package dump

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/criadapter/criadapter/internal/testutil"
)

// rooted returns a new directory, also opened as a root.
func rooted(t *testing.T) (string, *os.Root) {
	t.Helper()
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	testutil.Must(t, err)
	t.Cleanup(func() { _ = root.Close() })
	return dir, root
}

// The names of one file stay names of one file. Files with equal content stay files of their own.
func TestSaveHardLinks(t *testing.T) {
	dir, root := rooted(t)
	for _, name := range []string{"a", "d/single"} {
		testutil.WriteFile(t, filepath.Join(dir, name), "text")
	}
	testutil.Must(t, os.Link(filepath.Join(dir, "a"), filepath.Join(dir, "d", "b")))
	testutil.Must(t, os.Link(filepath.Join(dir, "a"), filepath.Join(dir, "outside")))
	path := filepath.Join(t.TempDir(), "archive")
	testutil.Must(t, SaveAll(t.Context(), root, path, func(name string) bool { return name == "outside" }))
	archive, err := os.Open(path)
	testutil.Must(t, err)
	defer archive.Close()
	want := map[string]string{"./": "", "a": "text", "d/": "", "d/b": "-> a", "d/single": "text"}
	got := testutil.Untar(t, archive)
	testutil.Assert(t, maps.Equal(got, want), "the archive has %q, want %q", got, want)
}

// TestSaveAnyKind saves a file, a directory, links, a FIFO and a socket, and names of files that are not there.
func TestSaveAnyKind(t *testing.T) {
	dir, root := rooted(t)
	testutil.WriteFile(t, filepath.Join(dir, "d", "file"), "text")
	testutil.Must(t, os.Symlink("/nonesuch", filepath.Join(dir, "link")))
	testutil.Must(t, os.Symlink("d", filepath.Join(dir, "linked")))
	testutil.Must(t, unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600))
	testutil.Must(t, unix.Mknod(filepath.Join(dir, "socket"), unix.S_IFSOCK|0o600, 0))
	path := filepath.Join(t.TempDir(), "archive")
	testutil.Must(t, Save(t.Context(), root, []string{
		"/d", "/d/file", "/link", "/linked", "/fifo", "/socket", "/gone", "/d/file/below-a-file",
	}, path))
	archive, err := os.Open(path)
	testutil.Must(t, err)
	defer archive.Close()
	got := testutil.Untar(t, archive)
	want := map[string]string{"d/": "", "d/file": "text", "link": "-> /nonesuch", "linked": "-> d", "fifo": ""}
	for name, content := range want {
		found, ok := got[name]
		testutil.Assert(t, ok && found == content, "%s is %q, want %q", name, found, content)
	}
	testutil.Assert(t, len(got) == len(want), "the archive has %q", got)
}

// Programs keep their capabilities.
func TestSaveKeepsAttributes(t *testing.T) {
	if testutil.AsRoot(t) {
		return
	}
	const attribute, capability = "security.capability", "\x01\x00\x00\x02\x00\x20\x00\x00" +
		"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	dir, root := rooted(t)
	program := filepath.Join(dir, "ping")
	testutil.WriteFile(t, program, "program")
	testutil.Must(t, unix.Setxattr(program, attribute, []byte(capability), 0))
	note := "text"
	if err := unix.Setxattr(program, "user.note", []byte(note), 0); errors.Is(err, unix.ENOTSUP) {
		note = "" // tmpfs before Linux 6.6 has no attributes of users
	} else {
		testutil.Must(t, err)
		testutil.Must(t, unix.Setxattr(program, "user.a=b", []byte(note), 0)) // no record can have this name
	}
	var archive bytes.Buffer
	w := newWriter(&archive)
	testutil.Must(t, save(t.Context(), w, root, []string{"/ping"}))
	testutil.Must(t, w.Close())
	header, err := tar.NewReader(&archive).Next()
	testutil.Must(t, err)
	testutil.Equal(t, header.PAXRecords["SCHILY.xattr."+attribute], capability, "the program's capabilities")
	testutil.Equal(t, header.PAXRecords["SCHILY.xattr.user.note"], note, "an attribute that a user set")
}

// SaveAll saves names of any bytes, and begins with the root.
func TestSaveAll(t *testing.T) {
	dir, root := rooted(t)
	testutil.WriteFile(t, filepath.Join(dir, "\xff", "file"), "text")
	testutil.WriteFile(t, filepath.Join(dir, "left", "out"), "")
	testutil.Must(t, os.Symlink("left", filepath.Join(dir, "link")))
	testutil.Must(t, os.Chmod(dir, 0o751))
	path, other := filepath.Join(t.TempDir(), "archive"), t.TempDir()
	testutil.Must(t, SaveAll(t.Context(), root, path, func(name string) bool { return name == "left" }))
	archive, err := os.Open(path)
	testutil.Must(t, err)
	defer archive.Close()
	got := testutil.Untar(t, archive)
	testutil.Assert(t, len(got) == 4 && got["\xff/file"] == "text" && got["link"] == "-> left",
		"the archive has %q", got)
	testutil.Must(t, CopyOwner(path, other))
	info, err := os.Stat(other)
	testutil.Assert(t, err == nil && info.Mode().Perm() == 0o751, "the copy is %v, %v", info, err)
}

// A save ends with its context, in the middle of a large file.
func TestSaveEndsWithItsContext(t *testing.T) {
	dir, root := rooted(t)
	large, err := os.Create(filepath.Join(dir, "large"))
	testutil.Must(t, err)
	testutil.Must(t, errors.Join(large.Truncate(1<<40), large.Close()))
	ctx, cancel := context.WithCancel(t.Context())
	w := newWriter(writerFunc(func(p []byte) (int, error) {
		cancel()
		return len(p), nil
	}))
	testutil.Fails(t, save(ctx, w, root, []string{"/large"}), func(err error) bool {
		return errors.Is(err, context.Canceled)
	}, "a save")
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// TestFileWithoutProc: a file whose handle is not in /proc is not taken for gone.
func TestFileWithoutProc(t *testing.T) {
	_, root := rooted(t)
	closed, err := root.Create("file")
	testutil.Must(t, err)
	testutil.Must(t, closed.Close())
	_, err = reopen(closed)
	testutil.Assert(t, err != nil && !errors.Is(err, fs.ErrNotExist), "got %v", err)
}

// TestSaveOfAChangingFile saves a name at which a file and a FIFO take turns. A FIFO must not block it.
func TestSaveOfAChangingFile(t *testing.T) {
	dir, root := rooted(t)
	ended, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		next, name := filepath.Join(dir, "next"), filepath.Join(dir, "f")
		for i := 0; ; i++ {
			select {
			case <-ended:
				return
			default:
			}
			if i%2 == 0 {
				_ = os.WriteFile(next, []byte("text"), 0o600)
			} else {
				_ = unix.Mkfifo(next, 0o600)
			}
			_ = os.Rename(next, name)
		}
	}()
	saved := testutil.Go(func() error {
		w := newWriter(io.Discard)
		for range 5000 {
			if err := save(t.Context(), w, root, []string{"/f"}); err != nil {
				return err
			}
		}
		return nil
	})
	testutil.Check(t, testutil.Receive(t, saved, "a save is blocked"))
	close(ended)
	<-stopped
}

// shrinking is an archive that truncates a file when it gets the file's header.
type shrinking struct {
	bytes.Buffer
	file string
}

func (s *shrinking) Write(p []byte) (int, error) {
	if s.Len() == 0 {
		if err := os.Truncate(s.file, 2); err != nil {
			return 0, err
		}
	}
	return s.Buffer.Write(p)
}

func TestFileThatBecomesShorter(t *testing.T) {
	dir, root := rooted(t)
	path := filepath.Join(dir, "a")
	testutil.WriteFile(t, filepath.Join(dir, "b"), "whole")
	for what, do := range map[string]func(w *writer) error{
		"save": func(w *writer) error { return save(t.Context(), w, root, []string{"/a", "/b"}) },
		"add": func(w *writer) error {
			err := add(t.Context(), w, root, "a")
			testutil.FailsWith(t, err, errShrunk, "a checkpoint's own file")
			return add(t.Context(), w, root, "b")
		},
	} {
		testutil.WriteFile(t, path, "12345")
		archive := &shrinking{file: path}
		w := newWriter(archive)
		testutil.Must(t, do(w), what)
		testutil.Must(t, w.Close())
		got := testutil.Untar(t, archive)
		testutil.Assert(t, got["a"] == "12\x00\x00\x00" && got["b"] == "whole", "%s: archived are %q", what, got)
	}
}

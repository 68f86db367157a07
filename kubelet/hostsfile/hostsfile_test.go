package hostsfile

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/criadapter/criadapter/internal/testutil"
)

// TestWriteKeepsTheFile: containers have the file mounted, so a new file would not reach them.
func TestWriteKeepsTheFile(t *testing.T) {
	path := Path(t.TempDir(), "uid")
	testutil.Must(t, Write(path, []byte("first, and long\n")))
	before, err := os.Stat(path)
	testutil.Must(t, err)
	testutil.Must(t, os.Chmod(path, 0o600))
	for _, content := range []string{"short\n", "longer again\n", ""} {
		testutil.Must(t, Write(path, []byte(content)))
		testutil.Equal(t, testutil.ReadFile(t, path), content, "content")
	}
	after, err := os.Stat(path)
	testutil.Assert(t, err == nil && os.SameFile(before, after) && after.Mode().Perm() == mode,
		"the file was replaced, or has another mode: %v, %v", after, err)
}

// TestReaderFindsNoEmptyFile reads while the content grows and shrinks. With an empty file, a program could not resolve
// localhost.
func TestReaderFindsNoEmptyFile(t *testing.T) {
	path := Path(t.TempDir(), "uid")
	short := "127.0.0.1\tlocalhost\n"
	long := short + strings.Repeat("192.0.2.1\tweb\n", 100)
	testutil.Must(t, Write(path, []byte(short)))
	written := testutil.Go(func() error {
		for range 300 {
			for _, content := range []string{long, short} {
				if err := Write(path, []byte(content)); err != nil {
					return err
				}
			}
		}
		return nil
	})
	for {
		select {
		case err := <-written:
			testutil.Must(t, err)
			return
		default:
		}
		found := testutil.ReadFile(t, path)
		testutil.Require(t, strings.HasPrefix(found, short), "a reader found %d bytes: %.40q", len(found), found)
	}
}

// TestWritersTakeTurns: an update does not bring back content that a later write has replaced, such as the pod's
// address in its earlier sandbox.
func TestWritersTakeTurns(t *testing.T) {
	path := Path(t.TempDir(), "uid")
	err := Update(path, func(have []byte) []byte { return have })
	testutil.Assert(t, errors.Is(err, fs.ErrNotExist), "without a file: %v", err)
	testutil.Must(t, Write(path, []byte("192.0.2.1\tweb\n")))
	const later = "192.0.2.2\tweb\n"
	var written <-chan error
	testutil.Must(t, Update(path, func(have []byte) []byte {
		written = testutil.Go(func() error { return Write(path, []byte(later)) })
		time.Sleep(100 * time.Millisecond) // long enough for a writer that does not wait
		return append(have, "192.0.2.9\tservice\n"...)
	}))
	testutil.Must(t, testutil.Receive(t, written, "the write has not ended"))
	testutil.Equal(t, testutil.ReadFile(t, path), later, "content")
}

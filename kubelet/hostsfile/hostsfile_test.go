package hostsfile

import (
	"os"
	"strings"
	"testing"

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

// TestReaderFindsNoEmptyFile reads while the content grows and shrinks. A reader that finds nothing cannot resolve
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

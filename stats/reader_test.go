package stats

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestReader(t *testing.T) {
	dir := t.TempDir()
	var r reader
	for _, size := range []int{0, 1, firstBuffer - 1, firstBuffer, firstBuffer + 1, 5 * firstBuffer, 10} {
		path := filepath.Join(dir, "file")
		want := bytes.Repeat([]byte("x"), size)
		testutil.Must(t, os.WriteFile(path, want, 0o600))
		got, err := r.read(path)
		testutil.Assert(t, err == nil && bytes.Equal(got, want), "%d bytes: got %d, %v", size, len(got), err)
	}
	huge := filepath.Join(dir, "huge")
	testutil.Must(t, os.WriteFile(huge, nil, 0o600))
	testutil.Must(t, os.Truncate(huge, maxFile+1))
	_, err := r.read(huge)
	testutil.Assert(t, errors.Is(err, io.ErrShortBuffer), "a huge file: %v", err)
	_, err = r.read(filepath.Join(dir, "missing"))
	testutil.Assert(t, errors.Is(err, os.ErrNotExist), "a missing file: %v", err)
	_, err = r.read(dir)
	testutil.Assert(t, err != nil, "read a directory")
	_, err = r.value(huge)
	testutil.Assert(t, err != nil, "a value of a huge file")
}

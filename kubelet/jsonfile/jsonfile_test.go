package jsonfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

// TestWriteOnlyChanges: a file with the same value is not replaced.
func TestWriteOnlyChanges(t *testing.T) {
	path := filepath.Join(t.TempDir(), "value.json")
	write := func(value int) os.FileInfo {
		t.Helper()
		testutil.Must(t, Write(path, value))
		info, err := os.Stat(path)
		testutil.Must(t, err)
		return info
	}
	first, same := write(1), write(1)
	testutil.Assert(t, os.SameFile(first, same), "the same value replaced the file")
	testutil.Assert(t, !os.SameFile(same, write(2)), "another value did not replace the file")
}

// TestWriteForTheOwner: a file that others may read gets the mode 0600 by the next write, with any value.
func TestWriteForTheOwner(t *testing.T) {
	path := filepath.Join(t.TempDir(), "value.json")
	for _, value := range []int{1, 1, 2} {
		testutil.Must(t, Write(path, value))
		info, err := os.Stat(path)
		testutil.Must(t, err)
		testutil.Equal(t, info.Mode(), 0o600, "the mode")
		testutil.Must(t, os.Chmod(path, 0o644))
	}
}

// TestAdvise: only an error of the content has advice, and each error has the path once.
func TestAdvise(t *testing.T) {
	dir := t.TempDir()
	broken := filepath.Join(dir, "broken")
	testutil.WriteFile(t, broken, "{")
	for path, advised := range map[string]bool{broken: true, dir: false} {
		var value int
		_, err := Read(path, &value)
		testutil.Assert(t, err != nil, "%s is read", path)
		text := Advise(path, err, "remove it").Error()
		testutil.Assert(t, strings.HasSuffix(text, "; remove it") == advised, "%s", text)
		testutil.Equal(t, strings.Count(text, path), 1, "the path in %q", text)
	}
}

// TestReadOrMove: an unreadable file is kept under another name.
func TestReadOrMove(t *testing.T) {
	path := filepath.Join(t.TempDir(), "value.json")
	var value int
	found, err := ReadOrMove(path, &value)
	testutil.Assert(t, !found && err == nil, "a missing file: %t, %v", found, err)
	testutil.Must(t, Write(path, 7))
	found, err = ReadOrMove(path, &value)
	testutil.Assert(t, found && err == nil && value == 7, "%t, %d, %v", found, value, err)
	testutil.WriteFile(t, path, "garbage")
	_, err = ReadOrMove(path, &value)
	testutil.Assert(t, err != nil, "garbage is read")
	testutil.Gone(t, path, "garbage stays")
	testutil.Exists(t, path+".corrupt")
}

package jsonfile

import (
	"os"
	"path/filepath"
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

// TestReadOrMove keeps an unreadable file under another name.
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

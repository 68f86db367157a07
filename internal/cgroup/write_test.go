package cgroup

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/containerd/errdefs"

	"github.com/criadapter/criadapter/internal/testutil"
)

func want(t *testing.T, path, value string) {
	t.Helper()
	got, err := os.ReadFile(path)
	testutil.Assert(t, err == nil && string(got) == value, "%s holds %q, %v, want %q", path, got, err, value)
}

func TestWriteIsWholeOrNot(t *testing.T) {
	dir := t.TempDir()
	first, second := filepath.Join(dir, "memory.max"), filepath.Join(dir, "cpu.max")
	testutil.WriteFile(t, first, "max")
	testutil.WriteFile(t, second, "max 100000")
	files := []File{{Path: first, Value: "7", Field: "a"}, {Path: second, Value: "1 2", Field: "b"}}

	undo, err := Write(t.Context(), append(files, File{Path: filepath.Join(dir, "none"), Field: "c", Optional: true}))
	testutil.Must(t, err)
	want(t, first, "7")
	want(t, second, "1 2")
	undo()
	want(t, first, "max")
	want(t, second, "max 100000")

	_, err = Write(t.Context(), append(files, File{Path: filepath.Join(dir, "none"), Field: "c"}))
	testutil.Assert(t, errdefs.IsInvalidArgument(err) && err.Error()[:3] == "c: ",
		"a file that the kernel does not have: %v", err)
	want(t, first, "max")
	want(t, second, "max 100000")
}

func TestWriteWhereTheCgroupIsGone(t *testing.T) {
	undo, err := Write(t.Context(),
		[]File{{Path: filepath.Join(t.TempDir(), "gone", "cpu.max"), Value: "1", Field: "a"}})
	testutil.Assert(t, err == nil, "got %v", err)
	undo()
}

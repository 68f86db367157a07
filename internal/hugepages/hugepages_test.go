package hugepages

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestSizesAndNames(t *testing.T) {
	root := t.TempDir()
	got, err := Sizes(root)
	testutil.Assert(t, err == nil && len(got) == 0, "a kernel without huge pages: %v, %v", got, err)
	for _, name := range []string{"hugepages-1048576kB", "hugepages-2048kB", "hugepages-64kB", "else"} {
		testutil.Must(t, os.MkdirAll(filepath.Join(root, "sys/kernel/mm/hugepages", name), 0o755))
	}
	got, err = Sizes(root)
	testutil.Assert(t, err == nil && slices.Equal(got, []int64{64 << 10, 2 << 20, 1 << 30}), "got %v, %v", got, err)
	names := Names(root)
	testutil.Assert(t, slices.Equal(names, []string{"1GB", "2MB", "64KB"}), "got %v", names)
}

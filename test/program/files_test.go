package program

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// The kernel quotes the blank in the name of the inner mount. The mount on the directory itself stays.
func TestUnmountBelow(t *testing.T) {
	dir, err := os.MkdirTemp(rigenv.Require(t).WorkDir, "mounts")
	testutil.Must(t, err)
	for _, point := range []string{dir, filepath.Join(dir, "outer"), filepath.Join(dir, "outer", "an inner")} {
		testutil.Must(t, os.MkdirAll(point, 0o755))
		testutil.Must(t, syscall.Mount("tmpfs", point, "tmpfs", 0, ""))
	}
	testutil.Check(t, UnmountBelow(dir))
	testutil.Check(t, os.Remove(filepath.Join(dir, "outer")))
	testutil.Check(t, syscall.Unmount(dir, 0))
	testutil.Check(t, os.Remove(dir))
}

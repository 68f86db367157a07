package realkubelet

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// A mount inside of another mount is unmounted, too.
func TestUnmountBelow(t *testing.T) {
	dir, err := os.MkdirTemp(rigenv.Require(t).WorkDir, "mounts")
	testutil.Must(t, err)
	for _, point := range []string{filepath.Join(dir, "outer"), filepath.Join(dir, "outer", "inner")} {
		testutil.Must(t, os.Mkdir(point, 0o755))
		testutil.Must(t, syscall.Mount("tmpfs", point, "tmpfs", 0, ""))
	}
	testutil.Check(t, UnmountBelow(dir))
	testutil.Check(t, os.RemoveAll(dir))
}

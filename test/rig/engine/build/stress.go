package build

import (
	"context"
	"path/filepath"
	"runtime"

	"github.com/criadapter/criadapter/test/gomod"
	"github.com/criadapter/criadapter/test/rig/cache"
)

// Stress is containerd-stress, containerd's own load generator, in the version of the newest engine's containerd.
type Stress struct {
	// Path is the program.
	Path string
	// Version is containerd's version.
	Version string
}

const stressName = "containerd-stress"

// containerd-stress raises its limit of open files to this number when it starts, and panics without CAP_SYS_RESOURCE.
// It needs only a few open files. So the build sets the number to 0, and the limit stays as it is.
const openFiles, noOpenFiles = "rlimit := uint64(100000)", "rlimit := uint64(0)"

// NewStress returns containerd-stress. The first call needs the Go module proxy.
func NewStress(ctx context.Context) (Stress, error) {
	key := cache.Key(stressName, containerdVersion, "own-limit", runtime.GOOS, runtime.GOARCH, runtime.Version())
	dir, err := cache.Fill(ctx, key, buildStress)
	return Stress{Path: filepath.Join(dir, stressName), Version: containerdVersion}, err
}

// buildStress compiles the program to dir, in a temporary copy of its module.
func buildStress(ctx context.Context, dir string) error {
	module, err := gomod.Download(ctx, dir, containerd+"@"+containerdVersion)
	if err != nil {
		return err
	}
	return gomod.InCopy(module.Dir, func(work string) error {
		limit := filepath.Join(work, "cmd", stressName, "rlimit_unix.go")
		if err := gomod.ReplaceOnce(limit, openFiles, noOpenFiles); err != nil {
			return err
		}
		_, err := gomod.Command(ctx, work, append([]string{"CGO_ENABLED=0"}, gomod.Native()...), "build", "-trimpath",
			"-buildvcs=false", "-ldflags", "-s -w", "-o", filepath.Join(dir, stressName), "./cmd/"+stressName)
		return err
	})
}

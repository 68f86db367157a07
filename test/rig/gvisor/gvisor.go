// Package gvisor builds gVisor's OCI runtime for tests. Debian has no package of it.
package gvisor

import (
	"context"
	"path/filepath"
	"runtime"

	"github.com/criadapter/criadapter/test/gomod"
	"github.com/criadapter/criadapter/test/rig/cache"
)

const (
	program = "gvisor.dev/gvisor/runsc"
	version = "v0.0.0-20260905035102-160fafc42237"
)

// Runsc returns the path of runsc. It is built if it is not in the cache, in about two minutes on two cores; that needs
// the Go module proxy.
func Runsc(ctx context.Context) (string, error) {
	dir, err := cache.Fill(ctx, cache.Key(program, version, runtime.GOARCH, runtime.Version()),
		func(ctx context.Context, dir string) error {
			_, err := gomod.Command(ctx, dir, append(gomod.Native(), "CGO_ENABLED=0", "GOBIN="+dir), "install",
				"-trimpath", "-buildvcs=false", "-ldflags", "-s -w", program+"@"+version)
			return err
		})
	return filepath.Join(dir, "runsc"), err
}

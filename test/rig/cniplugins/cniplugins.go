// Package cniplugins builds the CNI plugins that pods on a development machine need, by module name, into the cache.
package cniplugins

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"

	"github.com/criadapter/criadapter/test/rig/cache"
)

const (
	module  = "github.com/containernetworking/plugins"
	version = "v1.9.1"
)

// packages are the plugins that a bridge network with host ports needs, by their folder in the module.
var packages = []string{
	"plugins/main/bridge",
	"plugins/main/loopback",
	"plugins/ipam/host-local",
	"plugins/meta/portmap",
}

// Build returns a folder with the plugins bridge, host-local, loopback and portmap. It builds them (about half a minute)
// when the cache has none; that needs the Go module proxy unless the module cache holds them.
func Build(ctx context.Context) (string, error) {
	key := cache.Key("cni-plugins", module+"@"+version, runtime.GOOS, runtime.GOARCH, "static,stripped")
	return cache.Fill(ctx, key, func(ctx context.Context, dir string) error {
		args := []string{"install", "-trimpath", "-ldflags", "-s -w"}
		for _, pkg := range packages {
			args = append(args, module+"/"+pkg+"@"+version)
		}
		cmd := exec.CommandContext(ctx, "go", args...)
		// Version-suffixed installs refuse to run with a GOBIN-relative or a cross-compiling set-up, hence the fixed values.
		cmd.Env = append(os.Environ(), "GOBIN="+dir, "GOOS="+runtime.GOOS, "GOARCH="+runtime.GOARCH, "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("go install: %w\n%s", err, out)
		}
		return nil
	})
}

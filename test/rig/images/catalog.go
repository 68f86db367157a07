// Package images makes the images that the tests pull, on this machine and without a registry. Small images have a
// shell from the host's busybox, or only programs of our own (directory program). Images for critest have the names,
// users and behaviour that it expects. Images under test/ are for our own suites:
//
//	test/busybox:latest    a shell with all applets
//	test/crictl:latest     the same for tests that remove it; test/crictl-account:latest, too
//	test/hello:latest      a static service: HTTP on port 8080, a line per second on stdout and stderr
//	test/evil:latest       has all settings that must not leak into a pod, see evilConfig
//	test/multi:{a,b,c}     one image under three tags
//	test/moby:latest       a shell for the engine's own tests
//	test/big:latest        BigLayerSize bytes that do not compress
//
// All files have one fixed time. So the same inputs (this package, the host's busybox, the Go version) give the same
// digests. The images are for this host's architecture, or for another one (see Host).
package images

import (
	"context"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Catalog returns all test images by their name without a registry, "repository:tag". Images are made once; this takes
// some seconds and may install Debian packages (see Packages). They stay in a directory in cacheDir, which is renamed
// into place when it is complete. A later call with the same inputs only opens it. Layers are read from there on
// demand. Safe to call at the same time from several processes.
func Catalog(ctx context.Context, cacheDir string) (map[string]v1.Image, error) {
	return ThisHost().Catalog(ctx, cacheDir)
}

// Catalog is like the function Catalog, but makes the images of h's programs and for h's architecture.
func (h Host) Catalog(ctx context.Context, cacheDir string) (map[string]v1.Image, error) {
	entries, err := h.readUserland(ctx)
	if err != nil {
		return nil, err
	}
	key, err := h.cacheKey(ctx, entries)
	if err != nil {
		return nil, err
	}
	return openOrMake(cacheDir, key, func() (map[string]v1.Image, error) {
		made, err := h.cook(ctx, entries)
		if err != nil {
			return nil, err
		}
		return made.images, nil
	})
}

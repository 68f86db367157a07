// Package images makes the images that the tests pull, on this machine and without a registry: small ones with a shell
// from the host's busybox, and from scratch with programs of our own (directory program). Those that critest asks for
// carry the names, users and habits that it expects; those under test/ are for our own suites:
//
//	test/busybox:latest    a shell with all applets
//	test/crictl:latest     the same, for tests that remove it, as test/crictl-account:latest
//	test/hello:latest      a static service: HTTP on port 8080, a line per second on stdout and stderr
//	test/evil:latest       says everything an image may say that must not leak into a pod, see evilConfig
//	test/multi:{a,b,c}     one image under three tags
//	test/big:latest        BigLayerSize bytes that do not compress
//
// Everything in an image has one fixed time, so that one set of inputs (this package, the host's busybox, the Go
// version) gives one set of digests.
package images

import (
	"context"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Catalog returns all test images by their name without a registry, "repository:tag". Images are made once, which takes
// some seconds and may install Debian packages (see Packages), and kept in a directory in cacheDir that is renamed into
// place when it is complete; a later call with the same inputs only opens it. Layers are read from there as they are
// asked for. Safe to call at the same time from several processes.
func Catalog(ctx context.Context, cacheDir string) (map[string]v1.Image, error) {
	entries, err := readUserland(ctx)
	if err != nil {
		return nil, err
	}
	key, err := cacheKey(ctx, entries)
	if err != nil {
		return nil, err
	}
	return openOrMake(cacheDir, key, func() (map[string]v1.Image, error) {
		made, err := cook(ctx, entries)
		if err != nil {
			return nil, err
		}
		return made.images, nil
	})
}

package images

import (
	"archive/tar"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/criadapter/criadapter/internal/testutil"
)

func catalog(t *testing.T, cacheDir string) map[string]v1.Image {
	t.Helper()
	images, err := Catalog(t.Context(), cacheDir)
	testutil.Must(t, err)
	return images
}

func digests(t *testing.T, images map[string]v1.Image) map[string]string {
	t.Helper()
	sums := make(map[string]string)
	for name, image := range images {
		digest, err := image.Digest()
		testutil.Require(t, err == nil, "%s: %v", name, err)
		sums[name] = digest.String()
	}
	return sums
}

func TestCatalog(t *testing.T) {
	dir := t.TempDir()
	images := catalog(t, dir) // takes seconds, so the subtests share them
	t.Run("deterministic and cached", func(t *testing.T) { testDeterministicAndCached(t, dir, images) })
	t.Run("names and users", func(t *testing.T) { testNamesAndUsers(t, images) })
	t.Run("modes and sizes", func(t *testing.T) { testModesAndSizes(t, images) })
	t.Run("userland", func(t *testing.T) { testUserland(t, images["test/busybox:latest"]) })
}

// Images that are made twice, in two directories, have the same digests. The images are valid. A second call for one
// directory only opens the images.
func testDeterministicAndCached(t *testing.T, dir string, first map[string]v1.Image) {
	want := digests(t, first)
	got := digests(t, catalog(t, t.TempDir()))
	testutil.Assert(t, maps.Equal(got, want), "digests differ:\n%v\n%v", got, want)
	// These images have every kind of layer. Validating all images would read the shell's layer some thirty times.
	for _, name := range []string{"test/hello:latest", "test/evil:latest", e2ePrefix + "nonewprivs:1.3"} {
		testutil.Check(t, validate.Image(first[name]), name)
	}
	entries, err := os.ReadDir(dir)
	testutil.Require(t, err == nil && len(entries) == 1, "the cache holds %v, %v", entries, err)
	index := filepath.Join(dir, entries[0].Name(), "index.json")
	before, err := os.Stat(index)
	testutil.Must(t, err)
	got = digests(t, catalog(t, dir))
	testutil.Assert(t, maps.Equal(got, want), "from the cache:\n%v\n%v", got, want)
	after, err := os.Stat(index)
	testutil.Assert(t, err == nil && after.ModTime().Equal(before.ModTime()), "made again: %v", err)
}

// Images of different names differ, except for names that share an image on purpose. The users are the ones that
// critest expects.
func testNamesAndUsers(t *testing.T, images map[string]v1.Image) {
	ids := make(map[string][]string)
	for name, sum := range digests(t, images) {
		ids[sum] = append(ids[sum], name)
	}
	var shared []string
	for _, names := range ids {
		if len(names) > 1 {
			shared = append(shared, names...)
		}
	}
	slices.Sort(shared)
	if want := []string{
		stagePrefix + "test-image-tags:1", stagePrefix + "test-image-tags:2", stagePrefix + "test-image-tags:3",
		"test/multi:a", "test/multi:b", "test/multi:c",
	}; !slices.Equal(shared, want) {
		t.Errorf("names that share an image: %q, want %q", shared, want)
	}
	for name, user := range map[string]string{
		"test-image-user-uid:latest":            "1002",
		"test-image-user-username:latest":       "www-data",
		"test-image-user-uid-group:latest":      "1003:1004",
		"test-image-user-username-group:latest": "www-data:1004",
		"test-image-predefined-group:latest":    "1000",
		"test-image-1:latest":                   "",
	} {
		config, err := images[stagePrefix+name].ConfigFile()
		testutil.Must(t, err)
		testutil.Assert(t, config.Config.User == user, "%s: user %q, want %q", name, config.Config.User, user)
	}
}

func testModesAndSizes(t *testing.T, images map[string]v1.Image) {
	_, headers := unpack(t, topLayer(t, images[e2ePrefix+"nonewprivs:1.3"]))
	testutil.Equal(t, headers["nonewprivs"].Mode, 0o4755, "the mode of nonewprivs")
	size, err := topLayer(t, images["test/big:latest"]).Size()
	testutil.Assert(t, err == nil && size >= BigLayerSize, "big layer: %d bytes compressed, %v", size, err)
}

// The shell's applets are hard links to one file, and the programs that busybox lacks are there with their libraries.
func testUserland(t *testing.T, image v1.Image) {
	layers, err := image.Layers()
	testutil.Must(t, err)
	_, headers := unpack(t, layers[0])
	for _, applet := range []string{"sh", "ls", "top", "sleep", "hostname", "netstat", "pidof", "brctl", "[", "ip",
		"wget"} {
		header := headers["bin/"+applet]
		if header == nil {
			t.Errorf("no applet %s", applet)
			continue
		}
		testutil.Assert(t, header.Typeflag == tar.TypeLink && header.Linkname == "bin/busybox",
			"%s: type %c to %q", applet, header.Typeflag, header.Linkname)
	}
	for _, program := range []string{"busybox", "pgrep", "ipcs"} {
		header := headers["bin/"+program]
		testutil.Assert(t, header != nil && header.Typeflag == tar.TypeReg, "%s: %+v", program, header)
	}
	libraries := 0
	for name := range headers {
		if filepath.Base(name) == "libc.so.6" {
			libraries++
		}
	}
	testutil.Assert(t, libraries == 1, "libc is there %d times", libraries)
}

func topLayer(t *testing.T, image v1.Image) v1.Layer {
	t.Helper()
	layers, err := image.Layers()
	testutil.Must(t, err)
	return layers[len(layers)-1]
}

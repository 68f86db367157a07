package images

import (
	"path"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/random"

	"github.com/criadapter/criadapter/internal/testutil"
)

// Everything that a pull asks a registry for is where the server looks for it: the tag, its manifest, and the
// manifest's blobs.
func TestServed(t *testing.T) {
	image, err := random.Image(100, 2)
	testutil.Must(t, err)
	files, err := served(image, "pause", "testing")
	testutil.Must(t, err)
	content := make(map[string]string)
	for _, f := range files {
		content[f.header.Name] = string(f.content)
	}
	manifest, err := image.Manifest()
	testutil.Must(t, err)
	digest, err := image.Digest()
	testutil.Must(t, err)
	testutil.Equal(t, content["var/registry/pause/manifests/testing"], digest.String()+"\n", "the tag")
	below := func(kind string, digest v1.Hash) string {
		return path.Join("var/registry/pause", kind, "sha256", digest.Hex[:2], digest.Hex, "data")
	}
	sizes := map[string]int64{below("blobs", manifest.Config.Digest): manifest.Config.Size}
	for _, layer := range manifest.Layers {
		sizes[below("blobs", layer.Digest)] = layer.Size
	}
	for name, size := range sizes {
		got, there := content[name]
		testutil.Assert(t, there && int64(len(got)) == size, "%s has %d bytes, want %d", name, len(got), size)
	}
	if raw, err := image.RawManifest(); err != nil || content[below("manifests", digest)] != string(raw) {
		t.Errorf("the manifest is %q, %v", content[below("manifests", digest)], err)
	}
}

package images

import (
	"maps"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// catalog makes the images once, in a folder that goes with the test.
func catalog(t *testing.T, cacheDir string) map[string]v1.Image {
	t.Helper()
	if testing.Short() {
		t.Skip("makes 33 MB of images")
	}
	images, err := Catalog(t.Context(), cacheDir)
	if err != nil {
		t.Fatal(err)
	}
	return images
}

func digests(t *testing.T, images map[string]v1.Image) map[string]string {
	t.Helper()
	sums := make(map[string]string)
	for name, image := range images {
		digest, err := image.Digest()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		sums[name] = digest.String()
	}
	return sums
}

// Two makings in two places agree in every digest, and every image is whole.
func TestCatalogIsDeterministic(t *testing.T) {
	first, second := catalog(t, t.TempDir()), catalog(t, t.TempDir())
	if a, b := digests(t, first), digests(t, second); !maps.Equal(a, b) {
		t.Errorf("digests differ:\n%v\n%v", a, b)
	}
	for name, image := range first {
		if err := validate.Image(image); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

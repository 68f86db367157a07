// Package artifacts makes OCI artifacts for tests, and uploads images and artifacts to a registry.
package artifacts

import (
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/criadapter/criadapter/internal/testutil"
)

// Empty is the media type of an artifact without a configuration.
const Empty types.MediaType = "application/vnd.oci.empty.v1+json"

// New returns an artifact whose configuration has the media type config. files are names, each followed by the content
// of the file.
func New(t testing.TB, config types.MediaType, files ...string) v1.Image {
	t.Helper()
	artifact := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), config)
	for i := 0; i < len(files); i += 2 {
		var err error
		artifact, err = mutate.Append(artifact, mutate.Addendum{
			Layer:       static.NewLayer([]byte(files[i+1]), "text/plain"),
			Annotations: map[string]string{"org.opencontainers.image.title": files[i]},
		})
		testutil.Must(t, err)
	}
	return artifact
}

// Push uploads an image or an index to the registry in ref.
func Push(t testing.TB, ref string, content remote.Taggable) {
	t.Helper()
	to, err := name.ParseReference(ref)
	testutil.Must(t, err)
	if index, ok := content.(v1.ImageIndex); ok {
		testutil.Must(t, remote.WriteIndex(to, index))
		return
	}
	testutil.Must(t, remote.Write(to, content.(v1.Image)))
}

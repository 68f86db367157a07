package pause

import (
	_ "crypto/sha256" // digest.FromBytes needs it
	"encoding/json"
	"fmt"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

const (
	// Reference is the name that the image is loaded under. The top-level domain "invalid" never resolves (RFC 6761),
	// so no engine can pull another image under this name by accident.
	Reference = "criadapter.invalid/pause:1"

	referenceTag = "1"
	// binaryName is the program's file name in the image.
	binaryName = "pause"
	// user runs the program without rights, as the Kubernetes pause image does: it needs none.
	user = "65535:65535"
)

// created is the image's creation time. It never changes, because the image's id depends on it.
var created = time.Unix(0, 0).UTC()

// sandboxImage is the image of one architecture: its blobs and their descriptors.
type sandboxImage struct {
	layer, config, manifest             []byte
	layerDesc, configDesc, manifestDesc ocispec.Descriptor
}

// newSandboxImage makes the image. It has one layer with one file, and no
// labels, volumes, health check or environment that could leak into a pod.
func newSandboxImage(arch string) (*sandboxImage, error) {
	binary, err := executable(arch)
	if err != nil {
		return nil, err
	}
	img := &sandboxImage{}
	if img.layer, err = tarOf([]tarFile{{name: binaryName, mode: 0o755, content: binary}}); err != nil {
		return nil, fmt.Errorf("the sandbox image's layer: %w", err)
	}
	img.layerDesc = describe(ocispec.MediaTypeImageLayer, img.layer)
	platform := ocispec.Platform{Architecture: arch, OS: "linux"}
	if img.config, err = json.Marshal(imageConfig(platform, img.layerDesc.Digest)); err != nil {
		return nil, fmt.Errorf("the sandbox image's config: %w", err)
	}
	img.configDesc = describe(ocispec.MediaTypeImageConfig, img.config)
	if img.manifest, err = json.Marshal(ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2},
		MediaType: ocispec.MediaTypeImageManifest,
		Config:    img.configDesc,
		Layers:    []ocispec.Descriptor{img.layerDesc},
	}); err != nil {
		return nil, fmt.Errorf("the sandbox image's manifest: %w", err)
	}
	img.manifestDesc = describe(ocispec.MediaTypeImageManifest, img.manifest)
	img.manifestDesc.Platform = &platform
	return img, nil
}

// imageConfig returns the image's config. The layer is not compressed, so its digest is also its DiffID.
func imageConfig(platform ocispec.Platform, layer digest.Digest) ocispec.Image {
	return ocispec.Image{
		Created:  &created,
		Platform: platform,
		Config: ocispec.ImageConfig{
			User:       user,
			Entrypoint: []string{"/" + binaryName},
			WorkingDir: "/",
			StopSignal: "SIGTERM",
		},
		RootFS: ocispec.RootFS{Type: "layers", DiffIDs: []digest.Digest{layer}},
		History: []ocispec.History{{
			Created:   &created,
			CreatedBy: "criadapter: built-in sandbox program",
		}},
	}
}

// ConfigDigest returns the digest of the image's config ("sha256:…"), which is the image's id on an engine with the
// classic image store. For an architecture without a built-in image it returns errdefs.ErrNotImplemented.
func ConfigDigest(arch string) (string, error) {
	img, err := newSandboxImage(arch)
	if err != nil {
		return "", err
	}
	return img.configDesc.Digest.String(), nil
}

// ManifestDigest returns the digest of the image's manifest ("sha256:…"), which is the image's id on an engine with the
// containerd image store. For an architecture without a built-in image it returns errdefs.ErrNotImplemented.
func ManifestDigest(arch string) (string, error) {
	img, err := newSandboxImage(arch)
	if err != nil {
		return "", err
	}
	return img.manifestDesc.Digest.String(), nil
}

// describe returns the descriptor of a blob.
func describe(mediaType string, blob []byte) ocispec.Descriptor {
	return ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(blob), Size: int64(len(blob))}
}

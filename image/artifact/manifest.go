package artifact

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// ErrNotArtifact means that the content is an image, or not a manifest.
var ErrNotArtifact = errors.New("not an OCI artifact")

// imageConfigs are the media types of the configurations of images.
var imageConfigs = map[string]bool{
	ocispec.MediaTypeImageConfig:                     true,
	"application/vnd.docker.container.image.v1+json": true,
}

// File is a file of an artifact.
type File struct {
	// Path is the local path of the file in a volume.
	Path string
	// Blob is the digest of the content, and Size its size in bytes.
	Blob digest.Digest
	Size int64
}

// ParseManifest returns the files that an artifact's manifest lists. It fails with ErrNotArtifact for other content. It
// fails with ErrInvalidArgument if the titles of the files conflict, or lead out of the directory.
func ParseManifest(raw []byte) ([]File, error) {
	var manifest ocispec.Manifest
	if err := json.Unmarshal(raw, &manifest); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotArtifact, err)
	}
	// The specification lets a manifest leave out its type.
	if manifest.MediaType != "" && manifest.MediaType != ocispec.MediaTypeImageManifest {
		return nil, fmt.Errorf("media type %q: %w", manifest.MediaType, ErrNotArtifact)
	}
	if config := manifest.Config.MediaType; config == "" || imageConfigs[config] {
		return nil, fmt.Errorf("configuration of media type %q: %w", config, ErrNotArtifact)
	}
	return filesOf(manifest.Layers)
}

func filesOf(layers []ocispec.Descriptor) ([]File, error) {
	var files []File
	dirs, seen := map[string]bool{".": true}, map[string]digest.Digest{}
	for i, layer := range layers {
		if err := layer.Digest.Validate(); err != nil || layer.Digest.Algorithm() != digest.SHA256 || layer.Size < 0 {
			return nil, fmt.Errorf("layer %d of the artifact has the digest %q and the size %d: %w", i, layer.Digest,
				layer.Size, errdefs.ErrInvalidArgument)
		}
		name, err := nameOf(layer)
		if err != nil {
			return nil, err
		}
		if before, ok := seen[name]; ok && before == layer.Digest {
			continue
		} else if ok {
			return nil, fmt.Errorf("two layers of the artifact have the title %q: %w", name, errdefs.ErrInvalidArgument)
		}
		seen[name] = layer.Digest
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			dirs[dir] = true
		}
		files = append(files, File{Path: name, Blob: layer.Digest, Size: layer.Size})
	}
	for _, file := range files {
		if dirs[file.Path] {
			return nil, fmt.Errorf("the artifact's title %q is a file and a directory: %w", file.Path,
				errdefs.ErrInvalidArgument)
		}
	}
	return files, nil
}

// nameOf returns the path of a layer's file.
func nameOf(layer ocispec.Descriptor) (string, error) {
	title := layer.Annotations[ocispec.AnnotationTitle]
	if title == "" {
		return layer.Digest.Algorithm().String() + "-" + layer.Digest.Encoded(), nil
	}
	name := path.Clean(title)
	if !filepath.IsLocal(title) || name == "." || strings.ContainsRune(title, 0) {
		return "", fmt.Errorf("the artifact's title %q does not stay in a directory: %w", title,
			errdefs.ErrInvalidArgument)
	}
	return name, nil
}

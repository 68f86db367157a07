package images

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"

	"github.com/criadapter/criadapter/internal/pause"
)

// nameAnnotation holds an image's catalogue name in the layout's index; the OCI layout specification defines it.
const nameAnnotation = "org.opencontainers.image.ref.name"

// cacheKey hashes all that the images are made from: this package, the host's files, and the sandbox image.
func (h Host) cacheKey(ctx context.Context, host ...[]entry) (string, error) {
	version, err := goVersion(ctx)
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	fmt.Fprintf(sum, "%s %s\n", version, h.Architecture)
	sandbox, err := pause.Archive(h.Architecture)
	if err != nil {
		return "", err
	}
	sum.Write(sandbox)
	for _, entries := range host {
		ordered, err := arrange(entries)
		if err != nil {
			return "", err
		}
		for _, e := range ordered {
			fmt.Fprintf(sum, "%q %q %d %d\n", e.header.Name, e.header.Linkname, e.header.Mode, len(e.content))
			sum.Write(e.content)
		}
	}
	err = fs.WalkDir(sources, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := sources.Open(path)
		if err != nil {
			return err
		}
		defer source.Close()
		fmt.Fprintf(sum, "%q\n", path)
		_, err = io.Copy(sum, source)
		return err
	})
	if err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil))[:16], nil
}

// openOrMake opens the layout named after key in cacheDir. If it does not exist yet, openOrMake first writes the images
// of make to it.
func openOrMake(cacheDir, key string, make func() (map[string]v1.Image, error)) (map[string]v1.Image, error) {
	dir := filepath.Join(cacheDir, "images-"+key)
	if _, err := os.Stat(dir); err == nil {
		return open(dir)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err := os.MkdirAll(cacheDir, 0o755); err != nil {
		return nil, err
	}
	temp, err := os.MkdirTemp(cacheDir, "making-images-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(temp)
	images, err := make()
	if err != nil {
		return nil, err
	}
	if err := write(temp, images); err != nil {
		return nil, err
	}
	if err := os.Rename(temp, dir); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	// ErrExist means that another process has made the same layout meanwhile.
	return open(dir)
}

func write(dir string, images map[string]v1.Image) error {
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(images)) {
		annotation := layout.WithAnnotations(map[string]string{nameAnnotation: name})
		if err := path.AppendImage(images[name], annotation); err != nil {
			return fmt.Errorf("store the image %s: %w", name, err)
		}
	}
	return nil
}

func open(dir string) (map[string]v1.Image, error) {
	path, err := layout.FromPath(dir)
	if err != nil {
		return nil, fmt.Errorf("%w; remove %s to have the test images made again", err, dir)
	}
	index, err := path.ImageIndex()
	if err != nil {
		return nil, err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	images := make(map[string]v1.Image, len(manifest.Manifests))
	for _, descriptor := range manifest.Manifests {
		image, err := path.Image(descriptor.Digest)
		if err != nil {
			return nil, err
		}
		images[descriptor.Annotations[nameAnnotation]] = image
	}
	return images, nil
}

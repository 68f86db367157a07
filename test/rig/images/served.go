package images

import (
	"errors"
	"fmt"
	"io"
	"path"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// servedDir is where agnhost's fake-registry-server has the images that it serves.
const servedDir = "var/registry"

// served are the files from which agnhost's fake-registry-server serves an image. A file named after the tag has the
// manifest's digest. The manifest and the blobs are in directories named after the first two digits of their digests.
func served(image v1.Image, name, tag string) ([]entry, error) {
	dir := path.Join(servedDir, name)
	digest, err := image.Digest()
	if err != nil {
		return nil, err
	}
	manifest, err := image.RawManifest()
	if err != nil {
		return nil, err
	}
	blobs, err := Blobs(image)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	files := []entry{
		file(path.Join(dir, "manifests", tag), 0o644, []byte(digest.String()+"\n")),
		servedFile(path.Join(dir, "manifests"), digest, manifest),
	}
	for digest, content := range blobs {
		files = append(files, servedFile(path.Join(dir, "blobs"), digest, content))
	}
	return files, nil
}

// Blobs returns the config and the compressed layers of an image.
func Blobs(image v1.Image) (map[v1.Hash][]byte, error) {
	config, err := image.ConfigName()
	if err != nil {
		return nil, err
	}
	blobs := map[v1.Hash][]byte{}
	if blobs[config], err = image.RawConfigFile(); err != nil {
		return nil, err
	}
	layers, err := image.Layers()
	if err != nil {
		return nil, err
	}
	for _, layer := range layers {
		digest, err := layer.Digest()
		if err != nil {
			return nil, err
		}
		compressed, err := layer.Compressed()
		if err != nil {
			return nil, err
		}
		blobs[digest], err = io.ReadAll(compressed)
		if err := errors.Join(err, compressed.Close()); err != nil {
			return nil, err
		}
	}
	return blobs, nil
}

func servedFile(dir string, digest v1.Hash, content []byte) entry {
	return file(path.Join(dir, digest.Algorithm, digest.Hex[:2], digest.Hex, "data"), 0o644, content)
}

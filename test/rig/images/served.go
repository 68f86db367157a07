package images

import (
	"fmt"
	"io"
	"path"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// servedDir is where agnhost's fake-registry-server has the images that it serves.
const servedDir = "var/registry"

// served are the files from which agnhost's fake-registry-server serves an image: a file named like the tag has the digest
// of the manifest, and what has a digest is below the first two digits of it.
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
	config, err := image.ConfigName()
	if err != nil {
		return nil, err
	}
	configFile, err := image.RawConfigFile()
	if err != nil {
		return nil, err
	}
	files := []entry{
		file(path.Join(dir, "manifests", tag), 0o644, []byte(digest.String()+"\n")),
		servedFile(path.Join(dir, "manifests"), digest, manifest),
		servedFile(path.Join(dir, "blobs"), config, configFile),
	}
	layers, err := image.Layers()
	if err != nil {
		return nil, err
	}
	for _, layer := range layers {
		blob, err := servedLayer(path.Join(dir, "blobs"), layer)
		if err != nil {
			return nil, fmt.Errorf("a layer of %s: %w", name, err)
		}
		files = append(files, blob)
	}
	return files, nil
}

func servedLayer(dir string, layer v1.Layer) (entry, error) {
	digest, err := layer.Digest()
	if err != nil {
		return entry{}, err
	}
	compressed, err := layer.Compressed()
	if err != nil {
		return entry{}, err
	}
	defer compressed.Close() // read only
	content, err := io.ReadAll(compressed)
	return servedFile(dir, digest, content), err
}

func servedFile(dir string, digest v1.Hash, content []byte) entry {
	return file(path.Join(dir, digest.Algorithm, digest.Hex[:2], digest.Hex, "data"), 0o644, content)
}

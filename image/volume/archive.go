package volume

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"

	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/criadapter/criadapter/image/artifact"
)

const (
	manifestName = "manifest.json"
	// maxManifest bounds a manifest, in bytes. The manifest of an image with a hundred layers has about 10 000 bytes.
	maxManifest = 4 << 20
)

// archive is an archive of docker save.
type archive struct {
	file *os.File
	// files are the positions of the files by name.
	files map[string]span
}

// span is the position of a file's content in an archive, in bytes.
type span struct{ at, size int64 }

// openArchive reads the positions of the files in an archive.
func openArchive(saved *os.File) (archive, error) {
	files, err := index(saved)
	if err != nil {
		return archive{}, fmt.Errorf("the engine's archive: %w: %w", err, errdefs.ErrDataLoss)
	}
	return archive{saved, files}, nil
}

// read returns the content of a file.
func (a archive) read(name string) (*io.SectionReader, error) {
	found, ok := a.files[path.Clean(name)]
	if !ok {
		return nil, fmt.Errorf("the engine's archive lacks %q: %w", name, errdefs.ErrDataLoss)
	}
	return io.NewSectionReader(a.file, found.at, found.size), nil
}

// readSmall returns the content of a file that is not larger than maxManifest.
func (a archive) readSmall(name string) ([]byte, error) {
	content, err := a.read(name)
	if err != nil {
		return nil, err
	}
	if content.Size() > maxManifest {
		return nil, fmt.Errorf("%q in the engine's archive has %d bytes: %w", name, content.Size(), errdefs.ErrDataLoss)
	}
	return io.ReadAll(content)
}

// layers returns the layers of the only image in the archive, the lowest first. They may be compressed.
func (a archive) layers() ([]io.Reader, error) {
	manifest, err := a.readSmall(manifestName)
	if err != nil {
		return nil, err
	}
	var images []struct{ Layers []string }
	if err := json.Unmarshal(manifest, &images); err != nil || len(images) != 1 {
		return nil, fmt.Errorf("the engine's archive has %d images in its %s (%v): %w", len(images), manifestName, err,
			errdefs.ErrDataLoss)
	}
	var layers []io.Reader
	for _, name := range images[0].Layers {
		layer, err := a.read(name)
		if err != nil {
			return nil, err
		}
		layers = append(layers, layer)
	}
	return layers, nil
}

// artifact returns the files of the OCI artifact with an id, which is the digest of its manifest, or of the index that
// lists it. It fails with artifact.ErrNotArtifact for an image. Only engines with the containerd image store have
// artifacts. Their archives are OCI image layouts, too.
func (a archive) artifact(id digest.Digest) ([]artifact.File, error) {
	if _, ok := a.files[blobName(id)]; !ok {
		return nil, artifact.ErrNotArtifact
	}
	raw, err := a.readSmall(blobName(id))
	if err != nil {
		return nil, err
	}
	var index ocispec.Index
	if err := json.Unmarshal(raw, &index); err == nil && len(index.Manifests) > 0 {
		return a.indexed(index)
	}
	return artifact.ParseManifest(raw)
}

// indexed finds the first manifest of an index that is in the archive, and returns the files of that manifest.
func (a archive) indexed(index ocispec.Index) ([]artifact.File, error) {
	for _, manifest := range index.Manifests {
		if manifest.Digest.Validate() != nil {
			continue
		}
		if _, ok := a.files[blobName(manifest.Digest)]; !ok {
			continue
		}
		raw, err := a.readSmall(blobName(manifest.Digest))
		if err != nil {
			return nil, err
		}
		return artifact.ParseManifest(raw)
	}
	return nil, artifact.ErrNotArtifact
}

// blobName returns the name of a blob in an OCI image layout.
func blobName(blob digest.Digest) string {
	return path.Join(ocispec.ImageBlobsDir, blob.Algorithm().String(), blob.Encoded())
}

// index finds the files in an archive by name. Docker up to 24 writes a layer that occurs twice as a link to its first
// occurrence.
func index(saved *os.File) (map[string]span, error) {
	if _, err := saved.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	files, links := map[string]span{}, map[string]string{}
	for reader := tar.NewReader(saved); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		name := path.Clean(header.Name)
		switch header.Typeflag {
		case tar.TypeReg:
			// Next has read the file up to the end of the header.
			at, err := saved.Seek(0, io.SeekCurrent)
			if err != nil {
				return nil, err
			}
			files[name] = span{at: at, size: header.Size}
		case tar.TypeSymlink:
			links[name] = path.Join(path.Dir(name), header.Linkname)
		}
	}
	for name, target := range links {
		if file, ok := files[target]; ok {
			files[name] = file
		}
	}
	return files, nil
}

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
)

const (
	manifestName = "manifest.json"
	// maxManifest bounds a manifest, in bytes. The manifest of an image with a hundred layers has about 10 000 bytes.
	maxManifest = 4 << 20
)

// span is the position of a file's content in an archive, in bytes.
type span struct{ at, size int64 }

// readLayers returns the layers of the only image in an archive of docker save, the lowest first. They may be
// compressed.
func readLayers(saved *os.File) ([]io.Reader, error) {
	files, err := index(saved)
	if err != nil {
		return nil, fmt.Errorf("the engine's archive: %w: %w", err, errdefs.ErrDataLoss)
	}
	manifest, ok := files[manifestName]
	if !ok || manifest.size > maxManifest {
		return nil, fmt.Errorf("the engine's archive has no usable %s: %w", manifestName, errdefs.ErrDataLoss)
	}
	var images []struct{ Layers []string }
	if err := json.NewDecoder(io.NewSectionReader(saved, manifest.at, manifest.size)).Decode(&images); err != nil ||
		len(images) != 1 {
		return nil, fmt.Errorf("the engine's archive has %d images in its %s (%v): %w", len(images), manifestName, err,
			errdefs.ErrDataLoss)
	}
	var layers []io.Reader
	for _, name := range images[0].Layers {
		layer, ok := files[path.Clean(name)]
		if !ok {
			return nil, fmt.Errorf("the engine's archive lacks the layer %q: %w", name, errdefs.ErrDataLoss)
		}
		layers = append(layers, io.NewSectionReader(saved, layer.at, layer.size))
	}
	return layers, nil
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

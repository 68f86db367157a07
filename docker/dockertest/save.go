package dockertest

import (
	"archive/tar"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
)

// SaveImage implements docker.Images. The archive has the configuration "{}" and the loaded layers.
func (e *Engine) SaveImage(ctx context.Context, ref string, archive io.Writer) error {
	return e.call(ctx, "SaveImage", ref, func() error {
		names, layers, err := e.savedImage(ref)
		if err != nil {
			return err
		}
		return saveImage(archive, names, layers)
	})
}

// savedImage returns the names and the layers that an image has now.
func (e *Engine) savedImage(ref string) (names []string, layers [][]byte, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	i, err := e.findImage(ref)
	if err != nil {
		return nil, nil, err
	}
	return slices.Clone(i.Names), slices.Clone(i.tars), nil
}

// saveImage writes the layers before the manifest, as Docker 20.10 does.
func saveImage(archive io.Writer, names []string, layers [][]byte) error {
	type entry struct {
		Config   string
		RepoTags []string
		Layers   []string
	}
	manifest := entry{Config: "config.json", RepoTags: names}
	writer := tar.NewWriter(archive)
	if err := addFile(writer, manifest.Config, []byte("{}")); err != nil {
		return err
	}
	for n, layer := range layers {
		name := fmt.Sprintf("%d/layer.tar", n)
		if err := addFile(writer, name, layer); err != nil {
			return err
		}
		manifest.Layers = append(manifest.Layers, name)
	}
	text, err := json.Marshal([]entry{manifest})
	if err != nil {
		return err
	}
	if err := addFile(writer, "manifest.json", text); err != nil {
		return err
	}
	return writer.Close()
}

func addFile(writer *tar.Writer, name string, content []byte) error {
	if err := writer.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(content))}); err != nil {
		return err
	}
	_, err := writer.Write(content)
	return err
}

package dockertest

import (
	"archive/tar"
	"context"
	"encoding/json"
	"fmt"
	"io"
)

// SaveImage implements docker.Images. The archive has the configuration "{}" and the loaded layers.
func (e *Engine) SaveImage(ctx context.Context, ref string, archive io.Writer) error {
	return e.call(ctx, "SaveImage", ref, func() error {
		e.mu.Lock()
		i, err := e.findImage(ref)
		e.mu.Unlock()
		if err != nil {
			return err
		}
		return i.save(archive)
	})
}

// save writes the layers before the manifest, as Docker 20.10 does.
func (i *Image) save(archive io.Writer) error {
	type entry struct {
		Config   string
		RepoTags []string
		Layers   []string
	}
	manifest := entry{Config: "config.json", RepoTags: i.Names}
	writer := tar.NewWriter(archive)
	if err := addFile(writer, manifest.Config, []byte("{}")); err != nil {
		return err
	}
	for n, layer := range i.tars {
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

package dockertest

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/containerd/errdefs"
	dockerspec "github.com/moby/docker-image-spec/specs-go/v1"
)

// maxArchiveFile is the size of the longest file in an archive that the engine accepts.
const maxArchiveFile = 64 << 20

// LoadImage implements docker.Images. Like the engine, it reads the configuration and the tags from manifest.json.
func (e *Engine) LoadImage(ctx context.Context, archive io.Reader) error {
	return e.call(ctx, "LoadImage", "", func() error { return e.load(archive) })
}

func (e *Engine) load(archive io.Reader) error {
	files, size, err := readArchive(archive)
	if err != nil {
		return err
	}
	var manifests []struct {
		Config   string
		RepoTags []string
		Layers   []string
	}
	if err := json.Unmarshal(files["manifest.json"], &manifests); err != nil {
		return fmt.Errorf("%w: manifest.json: %w", errdefs.ErrUnknown, err)
	}
	for _, manifest := range manifests {
		text, ok := files[manifest.Config]
		if !ok {
			return fmt.Errorf("%w: %s is not in the archive", errdefs.ErrUnknown, manifest.Config)
		}
		i, err := e.fromConfig(text)
		if err != nil {
			return err
		}
		i.Size = size
		for _, layer := range manifest.Layers {
			i.tars = append(i.tars, files[layer])
		}
		e.mu.Lock()
		for _, tag := range manifest.RepoTags {
			e.store(i, normal(tag))
		}
		if len(manifest.RepoTags) == 0 {
			e.store(i, "")
		}
		e.mu.Unlock()
	}
	return nil
}

func readArchive(archive io.Reader) (files map[string][]byte, size int64, err error) {
	files = make(map[string][]byte)
	reader := tar.NewReader(archive)
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			_, err := io.Copy(io.Discard, archive)
			return files, size, err
		}
		if err != nil {
			return nil, 0, fmt.Errorf("%w: Error processing tar file: %w", errdefs.ErrUnknown, err)
		}
		if header.Size > maxArchiveFile {
			return nil, 0, fmt.Errorf("%w: %s has %d bytes, more than the %d of this engine in memory",
				errdefs.ErrUnknown, header.Name, header.Size, maxArchiveFile)
		}
		content, err := io.ReadAll(reader)
		if err != nil {
			return nil, 0, fmt.Errorf("%w: Error processing tar file: %w", errdefs.ErrUnknown, err)
		}
		files[header.Name] = content
		size += header.Size
	}
}

// fromConfig returns an image whose id depends only on its configuration.
func (e *Engine) fromConfig(text []byte) (*Image, error) {
	var parsed dockerspec.DockerOCIImage
	if err := json.Unmarshal(text, &parsed); err != nil {
		return nil, fmt.Errorf("%w: image configuration: %w", errdefs.ErrUnknown, err)
	}
	i := &Image{
		ID:         "sha256:" + hexDigest(string(text)),
		Labels:     parsed.Config.Labels,
		User:       parsed.Config.User,
		Env:        parsed.Config.Env,
		Entrypoint: parsed.Config.Entrypoint,
		cmd:        parsed.Config.Cmd,
		stopSignal: parsed.Config.StopSignal,
	}
	if e.flavor == Docker29 {
		i.ID = "sha256:" + hexDigest("manifest of "+string(text))
	}
	for path := range parsed.Config.Volumes {
		i.Volumes = append(i.Volumes, path)
	}
	return i, nil
}

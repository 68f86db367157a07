package volume

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/containerd/log"
	goarchive "github.com/moby/go-archive"
	"github.com/moby/go-archive/compression"
	"github.com/opencontainers/go-digest"

	"github.com/criadapter/criadapter/image/artifact"
	"github.com/criadapter/criadapter/internal/step"
	"github.com/criadapter/criadapter/internal/wholedir"
)

// extract makes the directory of an image. The directory gets its final name when it is complete and on the disk.
//
// The files come from the archive of docker save. An export of a container would not do: it has the engine's own files
// in /etc and /dev, and only few extended attributes.
func (s *Store) extract(ctx context.Context, name, imageID string) (err error) {
	defer step.At("image volume: extract")()
	start := time.Now()
	making, err := wholedir.Make(s.opts.Root)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("extract image %s: %w", imageID, err), os.RemoveAll(making))
		}
	}()
	files := filepath.Join(making, filesName)
	if err := os.Mkdir(files, 0o755); err != nil {
		return err
	}
	if err := os.Chmod(files, 0o755); err != nil { // independent of the umask
		return err
	}
	size, err := s.unpack(ctx, imageID, making)
	if err != nil {
		return err
	}
	if err := os.Chtimes(making, time.Now(), time.Now()); err != nil {
		return err
	}
	named := step.At("image volume: rename")
	if err := wholedir.Publish(making, name); err != nil {
		return err
	}
	named()
	log.G(ctx).
		WithFields(
			log.Fields{"imageID": imageID, "bytes": size, "duration": time.Since(start).Round(time.Millisecond)}).
		Info("image extracted for mounting")
	return nil
}

// unpack writes the files of an image or an artifact to the directory that is being made, and returns their size in
// bytes.
func (s *Store) unpack(ctx context.Context, imageID, making string) (size int64, err error) {
	files := filepath.Join(making, filesName)
	if size, ok, err := s.opts.Artifacts.Link(imageID, files); ok || err != nil {
		return size, err
	}
	spool, err := os.CreateTemp(making, "archive-")
	if err != nil {
		return 0, err
	}
	defer spool.Close()
	// A file without a name is freed with its descriptor, even after a crash.
	if err := os.Remove(spool.Name()); err != nil {
		return 0, err
	}
	if err := s.opts.Engine.SaveImage(ctx, imageID, spool); err != nil {
		return 0, err
	}
	saved, err := openArchive(spool)
	if err != nil {
		return 0, err
	}
	if content, err := saved.artifact(digest.Digest(imageID)); err == nil {
		return unpackArtifact(ctx, saved, content, files)
	} else if !errors.Is(err, artifact.ErrNotArtifact) {
		return 0, err
	}
	return unpackImage(ctx, saved, files)
}

// unpackImage writes the layers of an image to a directory.
func unpackImage(ctx context.Context, saved archive, dir string) (size int64, err error) {
	layers, err := saved.layers()
	if err != nil {
		return 0, err
	}
	for i, layer := range layers {
		n, err := unpackLayer(dir, bounded{ctx, layer})
		if err != nil {
			return 0, fmt.Errorf("layer %d: %w", i, err)
		}
		size += n
	}
	return size, nil
}

// unpackArtifact writes the files of an artifact to a directory.
func unpackArtifact(ctx context.Context, saved archive, content []artifact.File, dir string) (size int64, err error) {
	for _, file := range content {
		blob, err := saved.read(blobName(file.Blob))
		if err != nil {
			return 0, err
		}
		if err := artifact.Write(dir, file, bounded{ctx, blob}); err != nil {
			return 0, err
		}
		size += file.Size
	}
	return size, nil
}

// unpackLayer puts a layer on top of the files, as the engine does. No entry leads out of the directory.
func unpackLayer(dir string, layer io.Reader) (size int64, err error) {
	defer step.At("image volume: unpack layer")()
	content, err := compression.DecompressStream(layer)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, content.Close()) }()
	return goarchive.UnpackLayer(dir, content, &goarchive.TarOptions{})
}

// bounded is a reader that ends with its context.
type bounded struct {
	ctx context.Context
	r   io.Reader
}

func (b bounded) Read(p []byte) (int, error) {
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	return b.r.Read(p)
}

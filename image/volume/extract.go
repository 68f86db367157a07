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
	"github.com/moby/go-archive"
	"github.com/moby/go-archive/compression"
	"golang.org/x/sys/unix"

	"github.com/criadapter/criadapter/internal/step"
)

// extract makes the directory of an image. The directory gets its final name when it is complete and on the disk.
//
// The files come from the archive of docker save. The export of a container would have the engine's own files in /etc
// and /dev, and few extended attributes.
func (s *Store) extract(ctx context.Context, name, imageID string) (err error) {
	defer step.At("image volume: extract")()
	start := time.Now()
	making, err := os.MkdirTemp(s.opts.Root, makingPrefix)
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
	if err := syncFileSystem(making); err != nil {
		return err
	}
	if err := os.Chtimes(making, time.Now(), time.Now()); err != nil {
		return err
	}
	named := step.At("image volume: rename")
	if err := os.Rename(making, filepath.Join(s.opts.Root, name)); err != nil {
		return err
	}
	named()
	log.G(ctx).
		WithFields(
			log.Fields{"imageID": imageID, "bytes": size, "duration": time.Since(start).Round(time.Millisecond)}).
		Info("image extracted for mounting")
	return syncFileSystem(s.opts.Root)
}

// unpack writes the files of an image to the directory that is being made, and returns their size in bytes.
func (s *Store) unpack(ctx context.Context, imageID, making string) (size int64, err error) {
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
	layers, err := readLayers(spool)
	if err != nil {
		return 0, err
	}
	for i, layer := range layers {
		n, err := unpackLayer(filepath.Join(making, filesName), bounded{ctx, layer})
		if err != nil {
			return 0, fmt.Errorf("layer %d: %w", i, err)
		}
		size += n
	}
	return size, nil
}

// unpackLayer puts a layer on top of the files like the engine. No entry leads out of the directory.
func unpackLayer(dir string, layer io.Reader) (size int64, err error) {
	defer step.At("image volume: unpack layer")()
	content, err := compression.DecompressStream(layer)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, content.Close()) }()
	return archive.UnpackLayer(dir, content, &archive.TarOptions{})
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

// syncFileSystem writes the cached data of a directory's file system to the disk.
func syncFileSystem(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := unix.Syncfs(int(dir.Fd())); err != nil {
		return &os.PathError{Op: "syncfs", Path: path, Err: err}
	}
	return nil
}

package kuberuntime

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/criadapter/criadapter/kubelet/cri"
	"github.com/criadapter/criadapter/kubelet/model"
)

// Rotator rotates the logs of running containers. A log that is too large is renamed, and the runtime opens a new one.
// Older logs are compressed, and the oldest are removed. Names are as in the kubelet: LOG.20060102-150405, with .gz if
// compressed.
type Rotator struct {
	Runtime *cri.Runtime
	// Pods returns the known pods, without a call to the runtime.
	Pods func() []*model.PodStatus
	// MaxSize is the size in bytes from which a log is rotated. MaxFiles is the number of logs per container, including
	// the current one.
	MaxSize  int64
	MaxFiles int
}

const (
	rotatedFormat = "20060102-150405"
	compressed    = ".gz"
	temporary     = ".tmp"
)

// Rotate rotates the logs of running containers that have at least MaxSize bytes.
func (r *Rotator) Rotate(ctx context.Context) error {
	var errs []error
	for _, pod := range r.Pods() {
		for _, container := range pod.Containers {
			if container.State != model.StateRunning {
				continue
			}
			if err := r.rotate(ctx, container.ID, container.LogPath); err != nil {
				errs = append(errs, fmt.Errorf("rotate the log of container %s: %w", container.ID, err))
			}
		}
	}
	return errors.Join(errs...)
}

func (r *Rotator) rotate(ctx context.Context, id, path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		// An earlier rotation was interrupted after the renaming, and the runtime still writes to the renamed file.
		return r.Runtime.ReopenContainerLog(ctx, id)
	case err != nil:
		return err
	case info.Size() < r.MaxSize:
		return nil
	}
	rotated := path + "." + time.Now().Format(rotatedFormat)
	if exists(rotated) || exists(rotated+compressed) {
		return nil // the log was rotated within this second; the next call uses another name
	}
	if err := r.tidy(path); err != nil {
		return err
	}
	if err := os.Rename(path, rotated); err != nil {
		return err
	}
	if err := r.Runtime.ReopenContainerLog(ctx, id); err != nil {
		return errors.Join(err, os.Rename(rotated, path)) // the runtime still writes to the renamed file
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, os.ErrNotExist)
}

// tidy makes room for one more rotated log. It removes unfinished files and the oldest logs, and compresses the others.
func (r *Rotator) tidy(path string) error {
	all, err := filepath.Glob(path + ".*")
	if err != nil {
		return err
	}
	slices.Sort(all) // by time
	var errs []error
	var rotated []string
	for _, file := range all {
		if strings.HasSuffix(file, temporary) ||
			slices.Contains(all, file+compressed) && !strings.HasSuffix(file, compressed) {
			errs = append(errs, os.Remove(file))
			continue
		}
		rotated = append(rotated, file)
	}
	if surplus := len(rotated) - max(0, r.MaxFiles-2); surplus > 0 {
		for _, file := range rotated[:surplus] {
			errs = append(errs, os.Remove(file))
		}
		rotated = rotated[surplus:]
	}
	for _, file := range rotated {
		if !strings.HasSuffix(file, compressed) {
			errs = append(errs, compress(file))
		}
	}
	return errors.Join(errs...)
}

// compress replaces a file by a compressed one with the same mode: a log may have secrets that not all users may read.
func compress(path string) (err error) {
	in, err := os.Open(path)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	out, err := os.OpenFile(path+temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, info.Mode().Perm())
	if err != nil {
		return err
	}
	writer := gzip.NewWriter(out)
	if _, err = io.Copy(writer, in); err == nil {
		err = writer.Close()
	}
	if err = errors.Join(err, out.Close()); err != nil {
		return errors.Join(err, os.Remove(path+temporary))
	}
	if err := os.Rename(path+temporary, path+compressed); err != nil {
		return err
	}
	return os.Remove(path)
}

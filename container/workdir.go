package container

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"
	"golang.org/x/sys/unix"

	"github.com/criadapter/criadapter/checkpoint"
)

// makeWorkDir makes a directory in parent for a checkpoint of a pod's container. Only its owner may enter it, because
// the checkpoint holds the container's memory. The pod's record names it before it exists. So Watch removes it at the
// next start of criadapter if a crash comes before the call of remove.
func (s *Service) makeWorkDir(ctx context.Context, sandboxID, parent string) (dir string, remove func(), err error) {
	dir = filepath.Join(parent, ".checkpoint-"+rand.Text())
	s.workDirs.Store(dir, nil)
	defer func() {
		if err != nil {
			s.workDirs.Delete(dir)
		}
	}()
	if err := s.markWorkDir(ctx, sandboxID, dir, true); err != nil {
		return "", nil, err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
			err = fmt.Errorf("location: %w: %w", err, errdefs.ErrInvalidArgument)
		} else {
			err = notWritable(err)
		}
		return "", nil, errors.Join(err, s.markWorkDir(ctx, sandboxID, dir, false))
	}
	remove = func() {
		defer s.workDirs.Delete(dir)
		if err := s.removeWorkDir(ctx, sandboxID, dir); err != nil {
			log.G(ctx).WithError(err).WithField("directory", dir).
				Warn("cannot remove working directory of checkpoint, the next start tries again")
		}
	}
	return dir, remove, nil
}

// removeWorkDir removes a directory, and then its mark.
func (s *Service) removeWorkDir(ctx context.Context, sandboxID, dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	return s.markWorkDir(ctx, sandboxID, dir, false)
}

// leftWorkDirs returns the directories that checkpoints of earlier starts have left. Their parents are any directories
// of the node, so only the record tells them from other files.
func (s *Service) leftWorkDirs(ctx context.Context, sandboxID string) []string {
	record, err := s.opts.Store.Load(ctx, sandboxID)
	if err != nil {
		return nil // without a record no mark was made, and the store reports an unreadable one
	}
	return slices.DeleteFunc(record.CheckpointDirs, func(dir string) bool {
		_, used := s.workDirs.Load(dir)
		return used
	})
}

// retryRemove removes a directory that a checkpoint of an earlier start has left, with retries while ctx lasts. The
// engine may still be writing there.
func (s *Service) retryRemove(ctx context.Context, sandboxID, dir string) {
	ctx = log.WithLogger(ctx, log.G(ctx).WithFields(log.Fields{"podSandboxID": sandboxID, "directory": dir}))
	retry(ctx, "cannot remove unfinished checkpoint of container", func() error {
		err := s.removeWorkDir(ctx, sandboxID, dir)
		if err == nil {
			log.G(ctx).Info("removed unfinished checkpoint of container")
		}
		return err
	})
}

// markWorkDir adds a directory to Record.CheckpointDirs, or removes it there.
func (s *Service) markWorkDir(ctx context.Context, sandboxID, dir string, made bool) error {
	return s.mark(ctx, sandboxID, func(r *checkpoint.Record) *[]string { return &r.CheckpointDirs }, dir, made)
}

package volume

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/containerd/log"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"

	"github.com/criadapter/criadapter/internal/step"
	"github.com/criadapter/criadapter/internal/wholedir"
)

const (
	// collectTimeout bounds one collection.
	collectTimeout = 2 * time.Minute
	// collectRetry is the pause after a failed collection.
	collectRetry = time.Minute
)

// Mounted returns the ids of the images that a container of the engine's list has mounted, by the engine or by the
// store. For an image that a user has mounted by a name, it returns the name.
func (s *Store) Mounted(c container.Summary) []string {
	var ids []string
	for _, point := range c.Mounts {
		if point.Type == mount.TypeImage {
			ids = append(ids, point.Name) // the requested source of the mount
			continue
		}
		below, err := filepath.Rel(s.opts.Root, point.Source)
		if err != nil || !filepath.IsLocal(below) || below == "." {
			continue
		}
		name, _, _ := strings.Cut(below, "/")
		ids = append(ids, imageID(name))
	}
	return ids
}

// Tidy schedules a collection of unused files. Call it after the removal of a container with a mounted image. It does
// not wait.
func (s *Store) Tidy() {
	select {
	case s.tidy <- struct{}{}:
	default: // a collection is scheduled
	}
}

// collectAll removes unused files until the store is closed. It collects on request, and when files that it kept are
// old enough.
func (s *Store) collectAll() {
	again := time.NewTimer(0)
	again.Stop()
	defer again.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-s.tidy:
		case <-again.C:
		}
		wait, err := s.collect(s.ctx)
		if err != nil && s.ctx.Err() == nil {
			log.G(s.ctx).WithError(err).Warn("cannot collect image volumes, trying again")
			wait = collectRetry
		}
		if wait > 0 {
			again.Reset(wait)
		}
	}
}

// collect removes the files that no container has mounted and that are old enough. It returns the time until the next
// collection, 0 for none.
//
// A container that is being created is not in the engine's list yet. Its call holds the directory. If the call released
// the directory after the list was requested, imageDir.used shows it.
func (s *Store) collect(ctx context.Context) (again time.Duration, err error) {
	entries, err := os.ReadDir(s.opts.Root)
	if err != nil || len(entries) == 0 {
		return 0, err
	}
	asked := s.now()
	mounted, err := s.mounted(ctx)
	if err != nil {
		return 0, err
	}
	var errs []error
	for _, entry := range entries {
		name := entry.Name()
		if wholedir.IsRemoving(name) { // a failed removal left it
			errs = append(errs, os.RemoveAll(filepath.Join(s.opts.Root, name)))
			continue
		}
		if wholedir.IsMaking(name) || mounted[name] {
			continue
		}
		info, err := entry.Info()
		if err != nil {
			errs = append(errs, err)
			continue
		}
		left := time.Until(info.ModTime().Add(s.opts.Keep))
		if left > s.opts.Keep { // the clock was set back, perhaps by years
			left = s.opts.Keep
			errs = append(errs, s.touch(name))
		}
		if left > 0 {
			again = soonest(again, left)
			continue
		}
		if removed, err := s.remove(ctx, name, asked); err != nil {
			errs = append(errs, err)
		} else if !removed {
			again = soonest(again, s.opts.Keep)
		}
	}
	return again, errors.Join(errs...)
}

func soonest(a, b time.Duration) time.Duration {
	if a == 0 {
		return b
	}
	return min(a, b)
}

// now returns the number of ended uses of all directories.
func (s *Store) now() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.uses
}

// mounted returns the names of the directories that containers have mounted.
func (s *Store) mounted(ctx context.Context) (map[string]bool, error) {
	ctx, cancel := context.WithTimeout(ctx, collectTimeout)
	defer cancel()
	containers, err := s.opts.Engine.ListContainers(ctx, nil)
	if err != nil {
		return nil, err
	}
	names := make(map[string]bool)
	for _, c := range containers {
		for _, id := range s.Mounted(c) {
			if name, err := dirName(id); err == nil {
				names[name] = true
			}
		}
	}
	return names, nil
}

// remove removes a directory, unless a call uses it or a use has ended after since.
func (s *Store) remove(ctx context.Context, name string, since uint64) (bool, error) {
	defer step.At("image volume: remove")()
	removing, err := s.takeAway(name, since)
	if err != nil || removing == "" {
		return false, err
	}
	log.G(ctx).WithField("imageID", imageID(name)).Info("removing image volume that no container has mounted")
	if err := os.RemoveAll(removing); err != nil {
		return false, fmt.Errorf("remove the files of image %s: %w", imageID(name), err)
	}
	return true, nil
}

// takeAway frees the name of a directory, and returns its new path. The path is empty for a directory in use.
func (s *Store) takeAway(name string, since uint64) (string, error) {
	defer step.At("image volume: take away")()
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.dirs[name]; f != nil {
		if f.holders > 0 || f.making != nil || f.used > since {
			return "", nil
		}
		delete(s.dirs, name)
	}
	return wholedir.TakeAway(s.opts.Root, name)
}

package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"
	"github.com/opencontainers/go-digest"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/image/artifact"
	"github.com/criadapter/criadapter/internal/wholedir"
)

const (
	// filesName is the name of the files' directory in the image's directory.
	filesName = "fs"

	// defaultKeep leaves time for a retry if the caller's deadline ends before the extraction does.
	defaultKeep = 5 * time.Minute
	// extractTimeout bounds the extraction of one image.
	extractTimeout = 30 * time.Minute
)

// Engine is the part of docker.Engine that the store uses.
type Engine interface {
	docker.Containers
	docker.Images
}

// Options are the options of Open. Root and Engine are required.
type Options struct {
	// Root is the absolute path of the files. The engine must see it under the same path. Only root may enter it,
	// because it holds the images' programs with their setuid bits.
	Root   string
	Engine Engine
	// Artifacts has the artifacts that the engine does not keep. It may be nil.
	Artifacts *artifact.Store
	// Keep is the minimum time from the last Mount of files to their removal, 0 for five minutes. Files that a
	// container has mounted always stay.
	Keep time.Duration
}

// Store holds the files of images. All methods are safe for concurrent use.
type Store struct {
	opts Options

	// ctx ends with Close.
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup
	tidy   chan struct{}

	mu sync.Mutex
	// dirs has the directories that were used since the start, by name.
	dirs map[string]*imageDir
	// uses is the number of ended uses of all directories.
	uses uint64
}

// imageDir is the state of one image's directory.
type imageDir struct {
	// holders is the number of calls that use the directory for a container that the engine may not list yet.
	holders int
	// used is Store.uses at the end of the directory's last use.
	used uint64
	// making is the extraction under way, nil without one.
	making *extraction
}

// extraction is shared by all calls that wait for one image.
type extraction struct {
	done chan struct{} // closed when err is set
	err  error
}

// Open returns the store in a directory, which it creates if need be. It removes the remains of a crash. The caller
// must Close it.
func Open(opts Options) (*Store, error) {
	if opts.Keep == 0 {
		opts.Keep = defaultKeep
	}
	if _, err := wholedir.Open(opts.Root); err != nil {
		return nil, err
	}
	s := &Store{opts: opts, tidy: make(chan struct{}, 1), dirs: make(map[string]*imageDir)}
	// The work in the background outlives the caller: it ends with Close.
	s.ctx, s.cancel = context.WithCancel(
		log.WithLogger(context.Background(), log.L.WithField("component", "image/volume")))
	s.work.Go(s.collectAll)
	s.Tidy() // containers may have gone since the last Close
	return s, nil
}

// Close ends extractions and removals under way, and waits for them. Mounts stay.
func (s *Store) Close() {
	s.cancel()
	s.work.Wait()
}

// Mount returns the host path of an image's files, or of the file or directory subPath in them. Links in subPath
// resolve as in the image. The path stays while a container has it mounted. Call release once, after the engine lists
// that container.
//
// It fails with ErrNotFound for a part that the image does not have. An extraction outlives the caller's context, so
// that a retry finds it done.
func (s *Store) Mount(ctx context.Context, imageID, subPath string) (path string, release func(), err error) {
	name, err := dirName(imageID)
	if err != nil {
		return "", nil, err
	}
	s.hold(name)
	if err = s.ensure(ctx, name, imageID); err == nil {
		path, err = part(filepath.Join(s.opts.Root, name, filesName), subPath)
	}
	if err != nil {
		s.release(name)
		return "", nil, err
	}
	return path, sync.OnceFunc(func() { s.release(name) }), nil
}

// dirName returns the name of an image's directory, which is its id without "sha256:". The engine's older notation of
// mounts allows no colon in a path.
func dirName(imageID string) (string, error) {
	id, err := digest.Parse(imageID)
	if err != nil || id.Algorithm() != digest.SHA256 {
		return "", fmt.Errorf("%q is not the id of an image: %w", imageID, errdefs.ErrInvalidArgument)
	}
	return id.Encoded(), nil
}

// imageID returns the id of the image whose directory has this name.
func imageID(name string) string { return digest.NewDigestFromEncoded(digest.SHA256, name).String() }

// stateOf returns the state of a directory. The caller holds the lock.
func (s *Store) stateOf(name string) *imageDir {
	f := s.dirs[name]
	if f == nil {
		f = &imageDir{}
		s.dirs[name] = f
	}
	return f
}

func (s *Store) hold(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stateOf(name).holders++
}

func (s *Store) release(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.stateOf(name)
	f.holders--
	s.uses++
	f.used = s.uses
	if _, err := os.Lstat(filepath.Join(s.opts.Root, name)); f.holders == 0 && f.making == nil &&
		errors.Is(err, fs.ErrNotExist) {
		delete(s.dirs, name)
	}
	s.Tidy() // the container may not have been created
}

// ensure waits for the image's files. The caller holds the directory.
func (s *Store) ensure(ctx context.Context, name, imageID string) error {
	making, err := s.join(name, imageID)
	if err != nil || making == nil {
		return err
	}
	select {
	case <-making.done:
		return making.err
	case <-ctx.Done():
		return fmt.Errorf("the files of image %s are still being extracted: %w", imageID, ctx.Err())
	}
}

// join finds or begins the extraction of an image. It returns nil if the files are there.
func (s *Store) join(name, imageID string) (*extraction, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.stateOf(name)
	if f.making != nil {
		return f.making, nil
	}
	err := s.touch(name)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err := s.ctx.Err(); err != nil {
		return nil, fmt.Errorf("criadapter is ending: %w", errdefs.ErrUnavailable)
	}
	making := &extraction{done: make(chan struct{})}
	f.making = making
	s.work.Go(func() {
		ctx, cancel := context.WithTimeout(s.ctx, extractTimeout)
		defer cancel()
		making.err = s.extract(ctx, name, imageID)
		s.mu.Lock()
		f.making = nil // f is still in dirs, which keeps an entry while making is set
		s.mu.Unlock()
		close(making.done)
		s.Tidy() // all callers may be gone
	})
	return making, nil
}

// touch records that files are used now.
func (s *Store) touch(name string) error {
	now := time.Now()
	return os.Chtimes(filepath.Join(s.opts.Root, name), now, now)
}

package container

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
	"golang.org/x/sys/unix"

	"github.com/criadapter/criadapter/docker/translate"
)

const (
	// hostPathPatience is how long a request waits for the file system of a host path.
	hostPathPatience = 10 * time.Second
	// maxHanging bounds the calls under way on one file system, each of which holds a thread. Other requests wait for
	// one of them to end.
	maxHanging = 16
	// hostPathMode is the mode of the directories that are made for missing host paths. containerd uses the same mode.
	hostPathMode = 0o755
)

// hostPaths makes sure that the host paths that containers mount exist. On a dead network file system even a stat may
// hang forever and cannot be interrupted. So all requests for a path share one call. Each file system has its own bound
// on the number of calls: a dead file system does not delay paths on other file systems.
type hostPaths struct {
	patience time.Duration
	// ensure is ensureHostPath, and mounts is readMountPoints; tests replace them.
	ensure func(path string) error
	mounts func() (mountPoints, error)
	seats  seats

	mu      sync.Mutex
	pending map[string]*pendingPath
}

// pendingPath is a call under way. err is set before done is closed.
type pendingPath struct {
	done chan struct{}
	err  error
}

func newHostPaths() *hostPaths {
	return &hostPaths{patience: hostPathPatience, ensure: ensureHostPath, mounts: readMountPoints,
		pending: map[string]*pendingPath{}}
}

// requireAll makes sure that all sources exist. Like containerd, it makes an empty directory for a missing one. The
// directory stays if the create fails later. Errors name the field.
func (h *hostPaths) requireAll(ctx context.Context, sources []translate.HostSource) error {
	if len(sources) == 0 {
		return nil
	}
	mounts, err := h.mounts()
	if err != nil {
		return err
	}
	for _, source := range sources {
		if err := h.require(ctx, filepath.Clean(source.Path), mounts); err != nil {
			return fmt.Errorf("%s: %w", source.Field, err)
		}
	}
	return nil
}

// require waits for one path. It returns errdefs.ErrUnavailable when the file system does not answer in time.
func (h *hostPaths) require(ctx context.Context, path string, mounts mountPoints) error {
	timer := time.NewTimer(h.patience)
	defer timer.Stop()
	call := h.join(path, mounts)
	select {
	case <-call.done:
		return call.err
	case <-ctx.Done():
		return fmt.Errorf("%s does not answer: %w", path, ctx.Err())
	case <-timer.C:
		return fmt.Errorf("%s does not answer for %v, check its file system: %w", path, h.patience,
			errdefs.ErrUnavailable)
	}
}

// join returns the call under way for a path, and starts it if there is none.
func (h *hostPaths) join(path string, mounts mountPoints) *pendingPath {
	h.mu.Lock()
	defer h.mu.Unlock()
	if call, ok := h.pending[path]; ok {
		return call
	}
	call := &pendingPath{done: make(chan struct{})}
	h.pending[path] = call
	// A wait for a seat ends a little before the wait of require, so that the error names the file system that hangs.
	v := visitor{seats: &h.seats, mounts: mounts, patience: h.patience * 9 / 10}
	go func() {
		call.err = h.visit(&v, path)
		h.mu.Lock()
		delete(h.pending, path)
		h.mu.Unlock()
		close(call.done)
	}()
	return call
}

// visit makes the call for a path, on a seat of the file system that the path leads to.
func (h *hostPaths) visit(v *visitor, path string) error {
	defer v.end()
	if err := v.walk(path); err != nil {
		return err
	}
	return h.ensure(path)
}

// ensureHostPath makes a directory where nothing exists, and leaves anything else unchanged. It returns
// errdefs.ErrInvalidArgument for an impossible path, and errdefs.ErrFailedPrecondition with the file system's error.
func ensureHostPath(path string) error {
	_, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		err = os.MkdirAll(path, hostPathMode)
	}
	if err == nil {
		return nil
	}
	if inTheWay := obstacle(path); inTheWay != nil {
		return inTheWay
	}
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENAMETOOLONG) {
		return fmt.Errorf("%w: %w", err, errdefs.ErrInvalidArgument)
	}
	return fmt.Errorf("%w: %w", err, errdefs.ErrFailedPrecondition)
}

// obstacle returns what makes a path impossible: a dangling link, or a file above its last element. It is nil when
// neither is seen.
func obstacle(path string) error {
	for at := path; ; at = filepath.Dir(at) {
		info, err := os.Lstat(at)
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR):
			if at == filepath.Dir(at) {
				return nil
			}
			continue
		case err != nil:
			return nil
		case info.Mode()&fs.ModeSymlink != 0:
			return danglingLink(at)
		case !info.IsDir() && at != path:
			return fmt.Errorf("%s is not a directory: %w", at, errdefs.ErrInvalidArgument)
		}
		return nil
	}
}

func danglingLink(link string) error {
	target, err := os.Readlink(link)
	if err != nil {
		return nil
	}
	if _, err := os.Stat(link); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return fmt.Errorf("%s is a link to %s, which does not exist: make it, or remove the link: %w", link, target,
		errdefs.ErrInvalidArgument)
}

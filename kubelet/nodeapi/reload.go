package nodeapi

import (
	"context"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/containerd/log"
)

// reloader caches a value that is read from files, and reads it again after a file has changed. It is safe for
// concurrent use.
type reloader[T any] struct {
	paths []string
	read  func() (T, error)

	mu     sync.Mutex
	states []fileState
	value  T
}

// fileState identifies a version of a file. The zero value is a missing file.
type fileState struct {
	modified time.Time
	size     int64
}

// newReloader reads for the first time. A bad file is an error here.
func newReloader[T any](read func() (T, error), paths ...string) (*reloader[T], error) {
	f := &reloader[T]{paths: paths, read: read, states: fileStates(paths)}
	var err error
	f.value, err = read()
	return f, err
}

// get returns the newest value. If the files cannot be read, for example during a write, it returns the last value.
func (f *reloader[T]) get(ctx context.Context) T {
	f.mu.Lock()
	defer f.mu.Unlock()
	states := fileStates(f.paths)
	if slices.Equal(states, f.states) {
		return f.value
	}
	f.states = states // bad files are logged once
	value, err := f.read()
	if err != nil {
		log.G(ctx).WithError(err).WithField("files", f.paths).
			Error("cannot use changed files, keeping their earlier content")
		return f.value
	}
	f.value = value
	return value
}

func fileStates(paths []string) []fileState {
	states := make([]fileState, len(paths))
	for i, path := range paths {
		if info, err := os.Stat(path); err == nil {
			states[i] = fileState{info.ModTime(), info.Size()}
		}
	}
	return states
}

package server

import (
	"os"
	"slices"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
)

// fromFiles is a value that is read from files, and again when one of them has changed. It is safe for concurrent use.
type fromFiles[T any] struct {
	paths []string
	read  func() (T, error)

	mu    sync.Mutex
	seen  []fileState
	value T
}

// fileState tells a file's versions apart. The zero value is a file that is not there.
type fileState struct {
	modified time.Time
	size     int64
}

// readFiles reads for the first time, so that a bad file is found here.
func readFiles[T any](read func() (T, error), paths ...string) (*fromFiles[T], error) {
	f := &fromFiles[T]{paths: paths, read: read, seen: fileStates(paths)}
	var err error
	f.value, err = read()
	return f, err
}

// get returns the newest value. Files that cannot be read, as when they are being written, leave the one before.
func (f *fromFiles[T]) get() T {
	f.mu.Lock()
	defer f.mu.Unlock()
	states := fileStates(f.paths)
	if slices.Equal(states, f.seen) {
		return f.value
	}
	f.seen = states // what is bad is told once
	value, err := f.read()
	if err != nil {
		logrus.WithError(err).WithField("files", f.paths).Error("Changed files cannot be used; what they held before counts")
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

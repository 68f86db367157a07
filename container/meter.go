package container

import (
	"context"
	"io"
	"sync/atomic"
	"time"
)

// dryOutput is how long the output may be silent after a process's end. After that a child counts as holding it open.
const dryOutput = 3 * time.Second

// meter is a reader that measures how long the running Read has waited for data, and counts the bytes. One goroutine
// may read while others measure.
type meter struct {
	io.Reader
	// began is when the running Read began, nil if none runs.
	began atomic.Pointer[time.Time]
	bytes atomic.Int64
}

func (m *meter) Read(p []byte) (int, error) {
	now := time.Now()
	m.began.Store(&now)
	defer m.began.Store(nil)
	n, err := m.Reader.Read(p)
	m.bytes.Add(int64(n))
	return n, err
}

// waited returns how long no output has come, counted from the given time at the earliest. It returns 0 if no Read
// runs, because earlier output is then still being handled.
func (m *meter) waited(from time.Time) time.Duration {
	began := m.began.Load()
	if began == nil {
		return 0
	}
	if began.After(from) {
		from = *began
	}
	return time.Since(from)
}

// drain waits until copied is closed, when all output of an ended process has been read, or until no output has come
// for dry. It fails when ctx ends first.
func (m *meter) drain(ctx context.Context, copied <-chan struct{}, dry time.Duration) error {
	from := time.Now()
	timer := time.NewTimer(dry)
	defer timer.Stop()
	for {
		select {
		case <-copied:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
			waited := m.waited(from)
			if waited >= dry {
				return nil
			}
			timer.Reset(dry - waited)
		}
	}
}

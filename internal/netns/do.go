package netns

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/containerd/log"
	"golang.org/x/sys/unix"

	"github.com/criadapter/criadapter/internal/osthread"
)

// Do runs f in the namespace and returns its error.
//
// f runs on its own operating-system thread, which has entered the namespace. The caller's thread stays where it is.
// Sockets that f opens and processes that it starts belong to the namespace, also after f has returned. Goroutines that
// f starts do not run in the namespace.
//
// Do waits until f has returned; f should watch ctx itself. When ctx has ended
// already, f does not run. A panic in f reaches the caller of Do.
//
// It returns errdefs.ErrNotFound or errdefs.ErrFailedPrecondition when the namespace is gone.
func (h Handle) Do(ctx context.Context, f func() error) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("entering network namespace %s: %w", h.path, err)
	}
	target, err := h.open()
	if err != nil {
		return err
	}
	defer target.Close()
	v := visit{err: fmt.Errorf("the work in network namespace %s ended its goroutine", h.path)}
	osthread.Run(func() { v.run(ctx, target, f) })
	if v.panicked != nil {
		panic(v.panicked)
	}
	return v.err
}

// visit is one stay of a goroutine in a namespace, and its outcome.
type visit struct {
	// err is the result of Do. It keeps its first value when f ends the goroutine with runtime.Goexit.
	err error
	// panicked describes a panic in f, nil without one.
	panicked error
}

// run calls f in the namespace target and then goes back. The goroutine is locked to its thread. run unlocks the thread
// only if it is in its first namespace again. Otherwise the thread ends with the goroutine, so that no other goroutine
// runs in the wrong namespace.
func (v *visit) run(ctx context.Context, target *os.File, f func() error) {
	home, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		runtime.UnlockOSThread() // nothing has changed yet
		v.err = fmt.Errorf("opening the network namespace of this thread: %w", err)
		return
	}
	defer home.Close()
	if err := unix.Setns(int(target.Fd()), unix.CLONE_NEWNET); err != nil {
		runtime.UnlockOSThread() // a failed setns changes nothing
		v.err = fmt.Errorf("entering network namespace %s: %w", target.Name(), err)
		return
	}
	defer func() {
		if err := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET); err != nil {
			log.G(ctx).WithError(err).Warn("cannot return from network namespace, giving up its thread")
			return
		}
		runtime.UnlockOSThread()
	}()
	defer func() {
		if r := recover(); r != nil {
			v.panicked = fmt.Errorf("panic in network namespace %s: %v\n%s", target.Name(), r, debug.Stack())
		}
	}()
	v.err = f()
}

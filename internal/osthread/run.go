// Package osthread runs functions on operating-system threads of their own. Namespaces, capabilities, mounts and a
// umask belong to a thread, so a function that changes them must not share its thread with other goroutines.
package osthread

import (
	"errors"
	"os"
	"runtime"
	"syscall"
)

// Run runs f on a locked thread and returns when f has returned. The thread ends with f, unless f calls
// runtime.UnlockOSThread because it has restored the thread.
func Run(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runOffMain(f)
	}()
	<-done
}

// Do runs f like Run and returns its error. It fails if f ends its goroutine.
func Do(f func() error) error {
	err := errors.New("the function ended its goroutine")
	Run(func() { err = f() })
	return err
}

// runOffMain locks the goroutine to its thread and runs f there. The main thread of the process cannot end: the runtime
// would park it with the changes that f made, and /proc/self would show them. So a goroutine on the main thread keeps
// that thread and runs f on another one.
func runOffMain(f func()) {
	runtime.LockOSThread()
	if syscall.Gettid() != os.Getpid() {
		f()
		return
	}
	defer runtime.UnlockOSThread()
	Run(f)
}

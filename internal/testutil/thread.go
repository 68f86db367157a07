package testutil

import (
	"os"
	"runtime"
	"syscall"
)

// OnOwnThread runs f on a thread that ends with it, so that namespaces, rights and a umask that f changes are seen by no
// other goroutine. It returns when f has returned.
func OnOwnThread(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runOffMain(f)
	}()
	<-done
}

// runOffMain locks the goroutine to its thread and runs f. The process's main thread cannot end: the runtime would park
// it as f leaves it, and /proc/self would show that. So a goroutine on the main thread holds it while another runs f.
func runOffMain(f func()) {
	runtime.LockOSThread()
	if syscall.Gettid() != os.Getpid() {
		f()
		return
	}
	defer runtime.UnlockOSThread()
	OnOwnThread(f)
}

package testutil

import (
	"os"
	"runtime"
	"syscall"
	"testing"
)

// ranOn are the threads of TestMain, and of the work that it had runOffMain do.
var ranOn struct{ caller, work int }

// init ties the main goroutine, and so TestMain, to the process's main thread.
func init() { runtime.LockOSThread() }

func TestMain(m *testing.M) {
	ranOn.caller = syscall.Gettid()
	runOffMain(func() { ranOn.work = syscall.Gettid() })
	runtime.UnlockOSThread()
	os.Exit(m.Run())
}

func TestTheMainThreadStaysAsItIs(t *testing.T) {
	if ranOn.caller != os.Getpid() || ranOn.work == 0 || ranOn.work == ranOn.caller {
		t.Errorf("the caller was on thread %d, the work on %d, and the process's main thread is %d",
			ranOn.caller, ranOn.work, os.Getpid())
	}
}

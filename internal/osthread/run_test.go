package osthread

import (
	"errors"
	"os"
	"runtime"
	"syscall"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

// ranOn are the threads of TestMain, and of the functions that it passed to runOffMain.
var ranOn struct{ caller, ended, unlocked int }

// init ties the main goroutine, and so TestMain, to the process's main thread.
func init() { runtime.LockOSThread() }

func TestMain(m *testing.M) {
	ranOn.caller = syscall.Gettid()
	runOffMain(func() { ranOn.ended = syscall.Gettid() })
	runOffMain(func() {
		ranOn.unlocked = syscall.Gettid()
		runtime.UnlockOSThread()
	})
	runtime.UnlockOSThread()
	os.Exit(m.Run())
}

func TestMainThreadRunsNoFunction(t *testing.T) {
	main := os.Getpid()
	testutil.Require(t, ranOn.caller == main,
		"TestMain ran on thread %d, not on the main thread %d", ranOn.caller, main)
	for name, thread := range map[string]int{"ended": ranOn.ended, "unlocked": ranOn.unlocked} {
		testutil.Assert(t, thread != 0 && thread != main,
			"the function whose thread %s ran on thread %d, the main thread is %d", name, thread, main)
	}
}

func TestDoReturnsTheError(t *testing.T) {
	want := errors.New("failed")
	testutil.Assert(t, Do(func() error { return nil }) == nil, "a function without an error failed")
	err := Do(func() error { return want })
	testutil.Assert(t, err == want, "got %v, want %v", err, want)
	err = Do(func() error {
		runtime.Goexit()
		return nil
	})
	testutil.Assert(t, err != nil, "a function that ended its goroutine has no error")
}

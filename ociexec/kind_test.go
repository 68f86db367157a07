package ociexec

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/criadapter/criadapter/internal/testutil"
)

// fakeRuntime makes a program from a shell script.
func fakeRuntime(t *testing.T, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "runc")
	testutil.Must(t, os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o700))
	return path
}

// A runtime that does not answer holds up no other.
func TestHangingRuntimeBlocksNoOther(t *testing.T) {
	var k kinds
	asked := filepath.Join(t.TempDir(), "asked")
	hanging := fakeRuntime(t, ">"+asked+"; exec sleep 1000")
	ctx, cancel := context.WithCancel(t.Context())
	environ := []string{"PATH=" + os.Getenv("PATH")}
	ended := testutil.Try(func() (string, error) { return k.of(ctx, hanging, environ) })
	testutil.Until(t, "the runtime is asked", func() bool {
		_, err := os.Stat(asked)
		return err == nil
	})
	begun := time.Now()
	kind, err := k.of(t.Context(), fakeRuntime(t, "echo runc version 1"), environ)
	testutil.Assert(t, err == nil && kind == "runc version 1", "%q, %v", kind, err)
	testutil.Assert(t, time.Since(begun) < askTimeout/2, "it took %v", time.Since(begun))
	cancel()
	testutil.Assert(t, <-ended != nil, "the hanging runtime has a version")
}

// A process that a runtime leaves running holds the runtime's output open, and does not hold up the caller.
func TestRuntimeThatLeavesAProcess(t *testing.T) {
	environ := []string{"PATH=" + os.Getenv("PATH")}
	begun := time.Now()
	output, err := askRuntime(t.Context(), environ, fakeRuntime(t, "sleep 60 & echo runc version 1"))
	testutil.Assert(t, err == nil && string(output) == "runc version 1\n", "%q, %v", output, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err = askRuntime(ctx, environ, fakeRuntime(t, "sleep 60 & sleep 60"))
	testutil.Assert(t, errors.Is(err, context.DeadlineExceeded), "a runtime that hangs: %v", err)
	testutil.Assert(t, time.Since(begun) < 30*time.Second, "it took %v", time.Since(begun))
}

func TestOtherRuntimesNeedTheEngine(t *testing.T) {
	var k kinds
	for _, answer := range []string{"crun version 1.8.1", "runsc version 1", "runc", ""} {
		kind, err := k.of(t.Context(), fakeRuntime(t, "echo "+answer), nil)
		testutil.Assert(t, errors.Is(err, ErrUnsuitable), "%q: got %q, %v, want ErrUnsuitable", answer, kind, err)
	}
}

// A runtime gets nothing of this program's environment, even if its shim has no search path.
func TestVersionIsAskedWithoutOurEnvironment(t *testing.T) {
	t.Setenv("CRIADAPTER_TEST_SECRET", "leaked")
	var k kinds
	kind, err := k.of(t.Context(), fakeRuntime(t, `echo "runc version $CRIADAPTER_TEST_SECRET"`), nil)
	testutil.Assert(t, err == nil && kind == "runc version ", "%q, %v", kind, err)
}

package ociexec

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/criadapter/criadapter/internal/ocinote"
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
	ended := testutil.Try(func() (string, error) { return k.ofProgram(ctx, hanging, environ) })
	testutil.Until(t, "the runtime is asked", func() bool {
		_, err := os.Stat(asked)
		return err == nil
	})
	begun := time.Now()
	kind, err := k.ofProgram(t.Context(), fakeRuntime(t, "echo runc version 1"), environ)
	testutil.Assert(t, err == nil && kind == "runc version 1", "%q, %v", kind, err)
	testutil.Assert(t, time.Since(begun) < askTimeout/2, "it took %v", time.Since(begun))
	cancel()
	testutil.Assert(t, <-ended != nil, "the hanging runtime has a version")
}

// A process that a runtime leaves running may hold the runtime's output open. The caller does not wait for it.
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
		kind, err := k.ofProgram(t.Context(), fakeRuntime(t, "echo "+answer), nil)
		testutil.Assert(t, errors.Is(err, ErrUnsuitable), "%q: got %q, %v, want ErrUnsuitable", answer, kind, err)
	}
}

// A runtime gets nothing of this program's environment, even if its shim has no search path.
func TestVersionIsAskedWithoutOurEnvironment(t *testing.T) {
	t.Setenv("CRIADAPTER_TEST_SECRET", "leaked")
	var k kinds
	kind, err := k.ofProgram(t.Context(), fakeRuntime(t, `echo "runc version $CRIADAPTER_TEST_SECRET"`), nil)
	testutil.Assert(t, err == nil && kind == "runc version ", "%q, %v", kind, err)
}

// criadapter-oci reports only the version of the engine's default runtime. A container's note may name another real
// runtime, which must be asked itself. An updated runtime is asked again.
func TestRuntimeBehindCriadapterOCI(t *testing.T) {
	id := strings.Repeat("0a", 32)
	notes := ocinote.Dir(t.TempDir())
	wrapper := filepath.Join(t.TempDir(), "script")
	text := fmt.Sprintf("#!/bin/sh\necho runc version 1 # --%s %s $@\n", ocinote.DirFlag, notes)
	testutil.Must(t, os.WriteFile(wrapper, []byte(text), 0o700))
	var k kinds
	ask := func(environ ...string) (string, error) {
		return k.ofContainer(t.Context(), &Container{id: id, program: wrapper, environ: environ})
	}
	kind, err := ask()
	testutil.Assert(t, err == nil && kind == "runc version 1", "without a note: %q, %v", kind, err)

	real := fakeRuntime(t, "echo runc version 2")
	testutil.Must(t, notes.Save(id, ocinote.Note{Runtime: ocinote.Runtime{Path: "runc"}}))
	for name, environ := range map[string][]string{
		"a runtime of daemon.json": {pathVariable + filepath.Dir(real)},
		"a shim":                   {pathVariable + "/none", keptVariable + filepath.Dir(real)},
	} {
		kind, err = ask(environ...)
		testutil.Assert(t, err == nil && kind == "runc version 2", "%s: %q, %v", name, kind, err)
	}
	testutil.Must(t, os.WriteFile(real, []byte("#!/bin/sh\necho runc version 2.1\n"), 0o700))
	kind, err = ask(pathVariable + filepath.Dir(real))
	testutil.Assert(t, err == nil && kind == "runc version 2.1", "updated: %q, %v", kind, err)

	for name, runtime := range map[string]ocinote.Runtime{
		"crun": {Path: fakeRuntime(t, "echo crun version 1")}, "a shim of its own": {Shim: "containerd-shim-kata-v2"},
	} {
		testutil.Must(t, notes.Save(id, ocinote.Note{Runtime: runtime}))
		kind, err = ask()
		testutil.Assert(t, errors.Is(err, ErrUnsuitable), "%s: %q, %v", name, kind, err)
	}
}

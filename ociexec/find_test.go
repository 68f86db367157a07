package ociexec

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/criadapter/criadapter/internal/proctable"
	"github.com/criadapter/criadapter/internal/testutil"
)

// The process id that the engine remembers may now belong to another process, whose parent looks like a shim. Find must
// not run the program that the parent's directory names.
func TestFindBelievesNoOtherProcess(t *testing.T) {
	const id = "0123456789abcdef-no-container"
	dir := t.TempDir()
	bundle := filepath.Join(dir, "io.containerd.runtime.v2.task", "moby", id)
	root, ran := filepath.Join(dir, "root"), filepath.Join(dir, "ran")
	testutil.Must(t, os.MkdirAll(bundle, 0o700))
	testutil.Must(t, os.MkdirAll(filepath.Join(root, "moby", id), 0o700))
	runtime := filepath.Join(dir, "runc")
	testutil.Must(t, os.WriteFile(runtime, []byte("#!/bin/sh\n>"+ran+"\necho runc version 1\n"), 0o700))
	options := fmt.Sprintf(`{"binary_name":%q,"root":%q}`, runtime, root)
	testutil.Must(t, os.WriteFile(filepath.Join(bundle, "options.json"), []byte(options), 0o600))

	parent := exec.Command("sh", "-c", "sleep 1000 & echo $!; read end; kill $!")
	parent.Dir = bundle
	input, err := parent.StdinPipe()
	testutil.Must(t, err)
	output, err := parent.StdoutPipe()
	testutil.Must(t, err)
	testutil.Must(t, parent.Start())
	t.Cleanup(func() { _, _ = input.Close(), parent.Wait() })
	var pid int
	_, err = fmt.Fscan(output, &pid)
	testutil.Must(t, err)
	testutil.Must(t, os.WriteFile(filepath.Join(bundle, "init.pid"), fmt.Append(nil, pid), 0o600))

	r, err := New(t.TempDir())
	testutil.Must(t, err)
	t.Cleanup(r.Close)
	_, err = r.Find(t.Context(), id, pid)
	testutil.Assert(t, errors.Is(err, ErrUnsuitable), "%v", err)
	err = r.Signal(t.Context(), id, pid, unix.SIGKILL)
	testutil.Assert(t, errors.Is(err, ErrUnsuitable), "%v", err)
	testutil.Assert(t, proctable.Lives(pid), "the other process was killed")
	_, err = os.Stat(ran)
	testutil.Fails(t, err, os.IsNotExist, "the directory's program ran")
}

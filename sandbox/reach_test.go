package sandbox

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
)

// apart starts a process in its own mount namespace, where later mounts of the test do not appear.
func apart(t testing.TB) (pid int) {
	t.Helper()
	cmd := exec.Command("sleep", "1000")
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS}
	testutil.Must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd.Process.Pid
}

// A user namespace that the engine does not see is refused before there is a container.
func TestUserNamespaceThatTheEngineDoesNotSee(t *testing.T) {
	onNode(t, withKernel, func(n *node) {
		n.engine.peer = apart(n)
		for _, pid := range []runtimeapi.NamespaceMode{runtimeapi.NamespaceMode_POD,
			runtimeapi.NamespaceMode_CONTAINER} {
			_, err := n.Run(n.Context(), mappedConfig("web", pid), "")
			testutil.Assert(n, errdefs.IsFailedPrecondition(err) &&
				strings.Contains(err.Error(), "mount "+n.dir+" with Bidirectional"), "%s: %v", pid, err)
		}
		if n.creates() != 0 {
			n.Errorf("the engine was asked for %d containers", n.creates())
		}
		n.wantNothing()
	})
}

func TestProbesOfACrashAreSwept(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root to mount")
	}
	dir := t.TempDir()
	mounted, plain, fresh := filepath.Join(dir, ".probe-1"), filepath.Join(dir, ".probe-2"), filepath.Join(dir,
		".probe-3")
	for _, probe := range []string{mounted, plain, fresh} {
		testutil.Must(t, os.Mkdir(probe, 0o700))
	}
	testutil.Must(t, unix.Mount("probe", mounted, "tmpfs", 0, "size=4k"))
	t.Cleanup(func() { _ = unix.Unmount(mounted, unix.MNT_DETACH) })
	old := time.Now().Add(-time.Hour)
	testutil.Must(t,
		errors.Join(os.Chtimes(mounted, old, old), os.Chtimes(plain, old, old), sweepProbes(dir), sweepProbes(dir+"x")))
	for probe, left := range map[string]bool{mounted: false, plain: false, fresh: true} {
		_, err := os.Lstat(probe)
		testutil.Assert(t, errors.Is(err, fs.ErrNotExist) != left, "%s: %v", probe, err)
	}
}

// An engine that does not see the pods' namespaces cannot join them, so it gets sandbox containers. A new engine
// process is tested anew.
func TestEngineThatDoesNotSeeMountsGetsSandboxContainers(t *testing.T) {
	onNode(t, withKernel, func(n *node) {
		n.engine.peer = apart(n)
		for _, name := range []string{"first", "second"} {
			id := n.runConfig(podConfig(name))
			testutil.Assert(n, n.pod(id).Status.Namespaces == nil,
				"the pod %s has namespaces that the engine does not see", name)
		}
		n.engine.peer = 0
		id := n.runConfig(podConfig("third"))
		testutil.Assert(n, n.pod(id).Status.Namespaces != nil,
			"the third pod has no namespaces, though the engine sees them")
		testutil.Equal(n, n.creates(), 2, "containers that the engine was asked for")
	})
}

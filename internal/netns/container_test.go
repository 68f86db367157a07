package netns

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"

	"github.com/criadapter/criadapter/internal/testutil"
)

// The process id alone is not enough: a process of another pod may have the id of an ended process.
func TestNamespaceOfAContainer(t *testing.T) {
	requireRoot(t)
	pid, end := startPod(t)
	id := filepath.Base(strings.TrimSpace(testutil.ReadFile(t, fmt.Sprintf("/proc/%d/cgroup", pid))))
	if id == "/" || id == "." {
		id = "/" // the test's processes are in the root cgroup
	}
	h := OfContainer(pid, id)
	if same, err := h.SameAs(pid); !same || err != nil || !h.Alive() {
		t.Errorf("SameAs the container's process is %v, %v", same, err)
	}
	ran := false
	err := h.Do(t.Context(), func() error { ran = true; return nil })
	testutil.Assert(t, err == nil && ran, "Do: %v", err)
	other := OfContainer(pid, "0123456789abcdef")
	ran = false
	if err := other.Do(t.Context(), func() error { ran = true; return nil }); !errdefs.IsNotFound(err) || ran {
		t.Errorf("Do in the namespace of a process of another container: %v, ran %v", err, ran)
	}
	testutil.Assert(t, !other.Alive(), "the namespace of another container's process is alive")
	end()
	testutil.Fails(t, h.Do(t.Context(), func() error { return nil }), errdefs.IsNotFound, "Do after the process ended")
}

// A cgroup that cannot be read, here for lack of a free file descriptor, does not prove that the namespace is gone.
func TestNamespaceOfAContainerThatCannotBeSeen(t *testing.T) {
	requireRoot(t)
	free, err := os.Open(os.DevNull)
	testutil.Must(t, err)
	next := uint64(free.Fd())
	free.Close()
	var limit unix.Rlimit
	testutil.Must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	testutil.Must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: next + 1, Max: limit.Max}))
	ns, err := OfContainer(os.Getpid(), "/").open()
	testutil.Must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit))
	testutil.Assert(t, ns == nil && errors.Is(err, unix.EMFILE) && !errdefs.IsNotFound(err), "got %v, %v", ns, err)
}

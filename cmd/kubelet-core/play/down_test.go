package play

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/containerd/errdefs"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet"
	"github.com/criadapter/criadapter/kubelet/nodelock"
)

// TestDownOfAnotherOwner checks that Down changes nothing in the directory of another owner. If a process runs the
// play, Down asks the process to end, and waits until the context ends.
func TestDownOfAnotherOwner(t *testing.T) {
	dir := t.TempDir()
	opts := Options{Name: "web", Kubelet: kubelet.Options{RuntimeEndpoint: "unix:///nowhere.sock", RootDir: dir,
		PodLogsDir: filepath.Join(t.TempDir(), "logs"), BesideKubelet: true}}
	file := filepath.Join(dir, "manifests", "mine.yaml")
	write := func() {
		t.Helper()
		testutil.Must(t, errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, nil, 0o600)))
	}
	write()
	testutil.WriteFile(t, opts.DetachedLog(), "")
	err := Down(t.Context(), opts)
	testutil.Assert(t, errdefs.IsNotFound(err), "a directory without an owner: %v", err)
	testutil.Gone(t, opts.DetachedLog(), "the log of a play that has ended")
	root, err := nodelock.LockRoot(dir, "play-other")
	testutil.Must(t, err)
	if err := Down(t.Context(), opts); !errdefs.IsFailedPrecondition(err) || errors.Is(err, nodelock.ErrInUse) {
		t.Errorf("the directory of another play: %v", err)
	}
	testutil.Exists(t, file)
	testutil.Must(t, root.RemoveAll())
	root, err = nodelock.LockRoot(dir, "play-web")
	testutil.Must(t, err)
	write()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	testutil.WriteFile(t, opts.DetachedLog(), "")
	if err := Down(ctx, opts); !errors.Is(err, context.Canceled) || !errors.Is(err, nodelock.ErrInUse) {
		t.Errorf("its own directory, which a process uses: %v", err)
	}
	testutil.Gone(t, file, "its manifests")
	testutil.Exists(t, opts.DetachedLog(), "the log of a play that still runs")
	testutil.Must(t, root.RemoveAll())
}

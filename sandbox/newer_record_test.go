package sandbox

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"

	"github.com/criadapter/criadapter/internal/testutil"
)

var schemaVersion = regexp.MustCompile(`"schemaVersion": \d+`)

// ofNewerProgram gives a pod's record a schema version above the present one, as a later criadapter may write it. It
// returns the record's file, and a function that puts the old version back.
func (n *node) ofNewerProgram(id string) (file string, back func()) {
	n.Helper()
	file = filepath.Join(n.storeDir(), id+".json")
	content, err := os.ReadFile(file)
	n.must(err)
	n.must(os.WriteFile(file, schemaVersion.ReplaceAll(content, []byte(`"schemaVersion": 1000`)), 0o600))
	return file, func() { n.must(os.WriteFile(file, content, 0o600)) }
}

// wantLeftAlone checks that a pod whose record is refused is shown as NOTREADY, and that no call changes it.
func (n *node) wantLeftAlone(id, file string) {
	n.Helper()
	before, err := os.ReadFile(file)
	n.must(err)
	if err := n.Recover(n.Context()); err == nil || !strings.Contains(err.Error(), file) {
		n.Errorf("Recover returned %v, want an error that names the record", err)
	}
	if err := n.collectOrphans(n.Context()); err == nil || !strings.Contains(err.Error(), file) {
		n.Errorf("collectOrphans returned %v, want an error that names the record", err)
	}
	n.wantState(id, notReady)
	pod := n.pod(id)
	testutil.Assert(n, pod.Meta.Name == sandboxName("web"), "the pod is shown as %q", pod.Meta.Name)
	for call, err := range map[string]error{"Stop": n.Stop(n.Context(), id), "Remove": n.Remove(n.Context(), id)} {
		if !errdefs.IsFailedPrecondition(err) || !strings.Contains(err.Error(), "start the newer program again") {
			n.Errorf("%s returned %v, want FailedPrecondition that says what to do", call, err)
		}
	}
	for _, c := range n.cache.Snapshot().ContainersOf(id) {
		testutil.Assert(n, c.Status.Running, "container %s was ended", c.Meta.Name)
	}
	_, err = n.Run(n.Context(), podConfig("web"), "")
	testutil.Fails(n, err, errdefs.IsAlreadyExists, "a second pod of the name")
	testutil.Assert(n, n.isJoined(id), "the pod's address was given back")
	testutil.Holds(n, file, string(before), "the record was changed")
}

// After a downgrade, the older criadapter leaves pods of the newer one unchanged. The newer one finds them READY again.
func TestPodOfANewerProgramIsLeftAlone(t *testing.T) {
	onEachKind(t, func(n *node) {
		id := n.run("web")
		n.addContainer(id, "web", "app")
		n.end()
		file, back := n.ofNewerProgram(id)
		n.start(n.mode)
		n.wantLeftAlone(id, file)
		n.end()
		back()
		n.start(n.mode)
		n.must(n.Recover(n.Context()))
		n.wantState(id, ready)
		n.removeLast(id)
	})
}

// A pod without its sandbox, as after a reboot, is shown from the head of its record alone.
func TestDeadPodOfANewerProgramStaysVisible(t *testing.T) {
	onEachKind(t, func(n *node) {
		id := n.run("web")
		n.end()
		file, _ := n.ofNewerProgram(id)
		if n.mode == withKernel {
			_ = unix.Unmount(filepath.Join(n.podsDir(), id, shmDir), unix.MNT_DETACH)
			for _, name := range []string{ipcFile, utsFile} {
				_ = unix.Unmount(filepath.Join(n.podsDir(), id, name), unix.MNT_DETACH)
			}
			n.must(os.RemoveAll(filepath.Join(n.podsDir(), id)))
		} else {
			n.must(n.engine.RemoveContainer(n.Context(), id))
		}
		n.start(n.mode)
		n.wantLeftAlone(id, file)
		// The error also says that deleting the record makes the pod removable.
		n.must(os.Remove(file))
		n.removeLast(id)
	})
}

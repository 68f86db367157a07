package container

import (
	"io/fs"
	"os"
	"testing"

	"github.com/containerd/errdefs"
)

// TestCheckpointOfAProcessThatHasEnded: its root directory goes with it, between the look at its state and the dump.
func TestCheckpointOfAProcessThatHasEnded(t *testing.T) {
	n, _ := newFakeNode(t)
	n.proc = t.TempDir()
	if err := n.saveFiles(t.Context(), 1, nil, "archive"); !errdefs.IsFailedPrecondition(err) {
		t.Errorf("got %v, want ErrFailedPrecondition", err)
	}
}

// TestCheckpointThatCannotBeWritten names the field of what the file system says.
func TestCheckpointThatCannotBeWritten(t *testing.T) {
	for _, err := range []error{&fs.PathError{Op: "open", Path: "/x", Err: fs.ErrPermission}, &os.LinkError{Op: "rename", Old: "/x", New: "/y", Err: fs.ErrExist}} {
		if got := notWritable(err); !errdefs.IsFailedPrecondition(got) {
			t.Errorf("%v became %v", err, got)
		}
	}
	if notWritable(nil) != nil {
		t.Error("no error became one")
	}
}

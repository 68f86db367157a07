package logs

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/containerd/errdefs"

	"github.com/criadapter/criadapter/internal/testutil"
)

// The engine opens a log with O_APPEND at first, and without O_APPEND after its own rotation. A process that does not
// write the log is not the engine.
func TestLogThatTheEngineRotates(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c-json.log")
	testutil.WriteFile(t, path, "first\n")
	testutil.Fails(t, checkAppended(os.Getpid(), path), errdefs.IsFailedPrecondition, "a proxy")
	testutil.Fails(t, checkAppended(0, path), errdefs.IsUnavailable, "an engine in another PID namespace")
	for _, c := range []struct {
		flags   int
		refused bool
	}{
		{os.O_RDONLY, true}, // a reader of the log
		{os.O_WRONLY | os.O_APPEND, false},
		{os.O_WRONLY | os.O_CREATE, true},
	} {
		file, err := os.OpenFile(path, c.flags, 0o640)
		testutil.Must(t, err)
		err = checkAppended(os.Getpid(), path)
		testutil.Check(t, file.Close())
		testutil.Assert(t, errdefs.IsFailedPrecondition(err) == c.refused, "flags %#o: %v", c.flags, err)
	}
}

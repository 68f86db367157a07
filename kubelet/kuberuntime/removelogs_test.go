package kuberuntime

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

// TestRemoveLogs: logs of other owners stay, and the empty root is removed.
func TestRemoveLogs(t *testing.T) {
	root := filepath.Join(t.TempDir(), "logs")
	for name, owner := range map[string]string{"a": "us", "b": "them"} {
		testutil.Must(t, markLogs(filepath.Join(root, name), owner))
	}
	foreign := filepath.Join(root, "foreign")
	testutil.Must(t, os.Mkdir(foreign, 0o755))
	for range 2 {
		testutil.Must(t, RemoveLogs(root, "us"))
		for name, want := range map[string]bool{"a": false, "b": true, "foreign": true} {
			_, err := os.Stat(filepath.Join(root, name))
			testutil.Assert(t, (err == nil) == want, "%s: %v", name, err)
		}
	}
	testutil.Must(t, os.Remove(foreign))
	for range 2 {
		testutil.Must(t, RemoveLogs(root, "them"))
	}
	testutil.Gone(t, root, "the empty root")
}

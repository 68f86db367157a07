package kuberuntime

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestRemoveLogs leaves the logs of others alone, and goes with the last ones.
func TestRemoveLogs(t *testing.T) {
	root := filepath.Join(t.TempDir(), "logs")
	for name, owner := range map[string]string{"a": "us", "b": "them"} {
		if err := markLogs(filepath.Join(root, name), owner); err != nil {
			t.Fatal(err)
		}
	}
	foreign := filepath.Join(root, "foreign")
	if err := os.Mkdir(foreign, 0o755); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := RemoveLogs(root, "us"); err != nil {
			t.Error(err)
		}
		for name, want := range map[string]bool{"a": false, "b": true, "foreign": true} {
			if _, err := os.Stat(filepath.Join(root, name)); (err == nil) != want {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if err := os.Remove(foreign); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := RemoveLogs(root, "them"); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(root); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the empty root: %v", err)
	}
}

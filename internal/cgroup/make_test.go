package cgroup

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

// TestMake makes a cgroup and its parents as on version 2. A second Make changes nothing.
func TestMake(t *testing.T) {
	root := t.TempDir()
	for name, content := range map[string]string{"cgroup.controllers": "cpu memory\n", "cgroup.subtree_control": ""} {
		testutil.Must(t, os.WriteFile(filepath.Join(root, name), []byte(content), 0o600))
	}
	dir := filepath.Join(root, "kubepods", "pod1")
	for range 2 {
		testutil.Must(t, Make(dir))
	}
	info, err := os.Stat(dir)
	testutil.Assert(t, err == nil && info.IsDir(), "%v, %v", info, err)
	// The kernel applies every write to the file. The plain file of this test keeps only the last write.
	if got, err := os.ReadFile(filepath.Join(root, "cgroup.subtree_control")); err != nil || string(got) != "+memory" {
		t.Errorf("cgroup.subtree_control is %q, %v", got, err)
	}
	testutil.Assert(t, Make(filepath.Join(root, "cgroup.controllers", "below")) != nil, "made a cgroup below a file")
}

package cgroup

import (
	"path/filepath"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

// TestSwapLimited: the kernel's file is found in the root cgroup of the host and in the cgroup of a container.
func TestSwapLimited(t *testing.T) {
	for _, c := range []struct {
		file    string // in the mount
		unified bool
		want    bool
	}{
		{"memory/memory.memsw.limit_in_bytes", false, true},
		{"memory/memory.limit_in_bytes", false, false},
		{"system.slice/memory.swap.max", true, true}, // a process in the root cgroup
		{"memory.swap.max", true, true},              // a container
		{"system.slice/memory.max", true, false},
	} {
		mount := t.TempDir()
		path := filepath.Join(mount, c.file)
		testutil.WriteFile(t, path, "max\n")
		testutil.Equal(t, swapLimited(mount, c.unified), c.want, "%s", c.file)
	}
}

package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/criadapter/criadapter/internal/step"
)

// Make makes a cgroup and those above it that are missing, as a runtime does for a container's. On version 2 it hands
// the controllers that there are down to it, as far as the kernel lets it: each limit tells whether that was far enough.
func Make(dir string) error {
	if _, err := os.Stat(dir); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	defer step.At("cgroup: make")()
	parent := filepath.Dir(dir)
	if err := Make(parent); err != nil {
		return err
	}
	controllers, err := os.ReadFile(filepath.Join(parent, "cgroup.controllers"))
	if err == nil {
		for _, name := range strings.Fields(string(controllers)) {
			delegate(parent, name)
		}
	}
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("making a cgroup: %w", err)
	}
	return nil
}

// delegate hands one controller down. The kernel refuses some, of which nothing is limited then.
func delegate(parent, controller string) {
	file, err := os.OpenFile(filepath.Join(parent, "cgroup.subtree_control"), os.O_WRONLY, 0)
	if err != nil {
		return
	}
	_, _ = file.WriteString("+" + controller)
	_ = file.Close()
}

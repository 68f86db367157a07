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

// Make makes a cgroup and its missing parents, as an OCI runtime does for a container. On version 2 it enables the
// controllers of each parent for its children, where the kernel allows it. If a controller stays off, writing one of
// its limits fails.
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

// delegate enables one controller for the children of parent. It ignores a refusal of the kernel.
func delegate(parent, controller string) {
	file, err := os.OpenFile(filepath.Join(parent, "cgroup.subtree_control"), os.O_WRONLY, 0)
	if err != nil {
		return
	}
	_, _ = file.WriteString("+" + controller)
	_ = file.Close()
}

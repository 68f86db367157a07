package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/criadapter/criadapter/internal/ocinote"
)

// runtime returns the real runtime: the container's own, whatever the engine's default
// is by now, for calls about none the one that criadapter has left beside the notes,
// and otherwise runc on PATH, for what others than create need it for after the
// machine has started again.
func (c *call) runtime() (ocinote.Runtime, error) {
	note, err := c.notes.Load(c.container)
	runtime := note.Runtime
	if err != nil || runtime.Path == "" {
		runtime, err = c.notes.LoadRuntime()
	}
	if errors.Is(err, fs.ErrNotExist) {
		runtime, err = ocinote.Runtime{Path: "runc"}, nil
	}
	if err != nil || filepath.IsAbs(runtime.Path) {
		return runtime, err
	}
	runtime.Path, err = findOther(runtime.Path, os.Getenv("PATH"))
	return runtime, err
}

// findOther looks a program up on PATH, where this one may stand under its name, or the one that an upgrade has put in
// its place since it began.
func findOther(name, path string) (string, error) {
	self, err := os.Stat("/proc/self/exe")
	if err != nil {
		return "", err
	}
	own, err := os.Executable()
	if err != nil {
		return "", err
	}
	successor := filepath.Join(filepath.Dir(own), ociName)
	for _, dir := range strings.Split(path, string(filepath.ListSeparator)) {
		candidate := filepath.Join(dir, name)
		stat, err := os.Stat(candidate)
		if err != nil || os.SameFile(stat, self) || !filepath.IsAbs(candidate) {
			continue
		}
		if target, err := filepath.EvalSymlinks(candidate); err != nil || target == successor {
			continue
		}
		if stat.Mode().IsRegular() && stat.Mode().Perm()&0o111 != 0 {
			return candidate, nil
		}
	}
	return "", fmt.Errorf("the OCI runtime %s is not on PATH", name)
}

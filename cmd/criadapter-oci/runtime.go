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
// machine has started again. PATH is taken from the environment.
func (c *call) runtime(environ []string) (ocinote.Runtime, error) {
	note, err := c.notes.Load(c.container)
	runtime := note.Runtime
	if err != nil || runtime.Path == "" {
		runtime, err = c.notes.LoadRuntime()
	}
	if errors.Is(err, fs.ErrNotExist) {
		runtime, err = ocinote.Runtime{Path: "runc"}, nil
	}
	if err != nil || filepath.IsAbs(runtime.Path) && (c.makes() || !isMissing(runtime.Path)) {
		return runtime, err
	}
	// A container can be ended when another package has brought its runtime to another place.
	path, _ := lookup(environ, pathVariable)
	runtime.Path, err = findOther(filepath.Base(runtime.Path), path)
	return runtime, err
}

func isMissing(path string) bool {
	_, err := os.Stat(path)
	return errors.Is(err, fs.ErrNotExist)
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

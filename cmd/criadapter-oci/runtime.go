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

// runtime returns the real runtime. A container has its own, whatever the engine's default is by now. Calls without a
// container use the one that criadapter has left beside the notes. Otherwise it is runc on PATH: commands other than
// create need it after the machine was restarted. PATH is taken from the environment.
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

// findOther looks a program up on PATH. It passes over this program under that name, and over a newer version of it
// that an upgrade has installed.
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

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

// runtime returns the real runtime. It is the runtime in the container's note, even if the engine's default has
// changed. Without a runtime in the note, it is the runtime that criadapter has recorded beside the notes. Without that
// record, as after a reboot, it is runc on PATH. create and exec do not get this far after a reboot, because they need
// a note. environ has the PATH. inSandbox is the note's InSandbox.
func (c *call) runtime(environ []string) (runtime ocinote.Runtime, inSandbox bool, err error) {
	note, err := c.notes.Load(c.container)
	runtime = note.Runtime
	if err != nil || runtime.Path == "" {
		runtime, err = c.notes.LoadRuntime()
	}
	if errors.Is(err, fs.ErrNotExist) {
		runtime, err = ocinote.Runtime{Path: "runc"}, nil
	}
	if err != nil || filepath.IsAbs(runtime.Path) && (c.makes() || !isMissing(runtime.Path)) {
		return runtime, note.InSandbox, err
	}
	// A package upgrade may move the runtime: commands other than create then find it by its name on PATH.
	path, _ := lookup(environ, pathVariable)
	runtime.Path, err = findOther(filepath.Base(runtime.Path), path)
	return runtime, note.InSandbox, err
}

func isMissing(path string) bool {
	_, err := os.Stat(path)
	return errors.Is(err, fs.ErrNotExist)
}

// findOther looks a program up on PATH. It skips an entry that leads to this program, or to a newer version of this
// program that an upgrade has installed.
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

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

const (
	// shimName is this program's other name. An engine since Docker Engine 23 finds it
	// without any configuration: containerd runs it for the runtime
	// io.containerd.criadapter.v2.
	shimName = "containerd-shim-criadapter-v2"
	ociName  = "criadapter-oci"
	// realShim is the shim that runs runc.
	realShim = "containerd-shim-runc-v2"
	// runcDir is the directory in which this program is called runc, relative to the program's own. It is installed,
	// because /run and /tmp may be mounted noexec.
	runcDir = "../libexec/criadapter"
)

// ownDir is the directory in which this program is called runc.
func ownDir() (string, error) {
	self, err := os.Executable()
	return filepath.Join(filepath.Dir(self), runcDir), err
}

// becomeShim replaces this program by runc's shim, with the same arguments and with this program as its runc. It
// returns only on an error.
func becomeShim(args []string) error {
	dir, err := ownDir()
	if err != nil {
		return err
	}
	if stat, err := os.Stat(filepath.Join(dir, "runc")); err != nil || stat.Mode().Perm()&0o111 == 0 {
		return fmt.Errorf("%s: %w", shimName, errors.Join(err, fmt.Errorf("there has to be a link %s/runc to %s", dir, ociName)))
	}
	path := os.Getenv("PATH")
	// As containerd: on PATH, or beside the program that it found.
	shim, err := findOther(realShim, path+string(filepath.ListSeparator)+filepath.Dir(args[0]))
	if err != nil {
		return err
	}
	if err := syscall.Exec(shim, slices.Concat([]string{shim}, args[1:]), shimEnviron(os.Environ(), dir)); err != nil {
		return fmt.Errorf("start %s: %w", shim, err)
	}
	return nil
}

const (
	pathVariable = "PATH="
	// keptVariable holds containerd's PATH in the shim's environment.
	keptVariable = "CRIADAPTER_PATH="
)

// shimEnviron is the environment of runc's shim. Its PATH has one directory. If this program is missing there, the shim
// must not find another runc, which would ignore the notes.
func shimEnviron(environ []string, dir string) []string {
	changed := []string{pathVariable + dir}
	for _, variable := range environ {
		if path, ok := strings.CutPrefix(variable, pathVariable); ok {
			changed = append(changed, keptVariable+path)
		} else if !strings.HasPrefix(variable, keptVariable) {
			changed = append(changed, variable)
		}
	}
	return changed
}

// realEnviron is the environment of the real runtime, with containerd's PATH. A wrapper that looks for runc must not
// find this program.
func realEnviron(environ []string, dir string) []string {
	path, kept := lookup(environ, keptVariable)
	if !kept { // the engine's own, or a shim of an earlier version with this directory before the others
		path, _ = lookup(environ, pathVariable)
	}
	dirs := slices.DeleteFunc(filepath.SplitList(path), func(other string) bool { return filepath.Clean(other) == dir })
	changed := slices.DeleteFunc(slices.Clone(environ), func(variable string) bool {
		return strings.HasPrefix(variable, pathVariable) || strings.HasPrefix(variable, keptVariable)
	})
	if len(dirs) > 0 {
		changed = append(changed, pathVariable+strings.Join(dirs, string(filepath.ListSeparator)))
	}
	return changed
}

// lookup returns the value of a variable.
func lookup(environ []string, variable string) (value string, found bool) {
	for _, entry := range environ {
		if value, found = strings.CutPrefix(entry, variable); found {
			return value, true
		}
	}
	return "", false
}

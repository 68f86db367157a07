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
	// runcDir is the directory, from that of the program, in which the program is called
	// runc. It is installed, because /run and /tmp may forbid to run programs.
	runcDir = "../libexec/criadapter"
)

// ownDir is the directory in which this program is called runc.
func ownDir() (string, error) {
	self, err := os.Executable()
	return filepath.Join(filepath.Dir(self), runcDir), err
}

// becomeShim replaces this program by runc's shim, with the same arguments, for which
// runc is this program. It returns only when that fails.
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
	if err := syscall.Exec(shim, slices.Concat([]string{shim}, args[1:]), withPath(os.Environ(), dir)); err != nil {
		return fmt.Errorf("start %s: %w", shim, err)
	}
	return nil
}

const pathVariable = "PATH="

// withPath is an environment with a directory before all others on PATH.
func withPath(environ []string, dir string) []string {
	changed := []string{pathVariable + dir}
	for _, variable := range environ {
		if path, ok := strings.CutPrefix(variable, pathVariable); ok {
			changed[0] = pathVariable + dir + string(filepath.ListSeparator) + path
		} else {
			changed = append(changed, variable)
		}
	}
	return changed
}

// realEnviron is the environment of the real runtime, which may be a wrapper that looks
// for runc in its turn: it must not find this program.
func realEnviron() ([]string, error) {
	dir, err := ownDir()
	return withoutPath(os.Environ(), dir), err
}

// withoutPath is an environment without a directory on PATH.
func withoutPath(environ []string, dir string) []string {
	changed := slices.Clone(environ)
	for i, variable := range environ {
		if path, ok := strings.CutPrefix(variable, pathVariable); ok {
			dirs := slices.DeleteFunc(filepath.SplitList(path), func(other string) bool { return filepath.Clean(other) == dir })
			changed[i] = pathVariable + strings.Join(dirs, string(filepath.ListSeparator))
		}
	}
	return changed
}

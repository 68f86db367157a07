package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/criadapter/criadapter/internal/ocinote"
)

const (
	// shimName is this program's name as a shim of containerd, which runs it for the runtime
	// io.containerd.criadapter.v2. Docker Engine 23 and later need no configuration for it.
	shimName = "containerd-shim-criadapter-v2"
	ociName  = "criadapter-oci"
	// realShim is the shim that runs runc.
	realShim = "containerd-shim-runc-v2"
	// runcDir is the directory with the link runc to this program, relative to the program's directory. It is an
	// installed directory, because /run and /tmp may be mounted noexec.
	runcDir = "../libexec/criadapter"
)

// ownDir returns the path of runcDir.
func ownDir() (string, error) {
	self, err := os.Executable()
	return filepath.Join(filepath.Dir(self), runcDir), err
}

// becomeShim replaces this program by runc's shim, with the same arguments and with this program as its runc. If the
// container's note names another shim, becomeShim edits the container's configuration and becomes that shim. It returns
// only on an error.
func becomeShim(args []string) error {
	note, err := ocinote.Dir(ocinote.DefaultDir).Load(flagValue(args, "-id"))
	if err == nil && note.Runtime.Shim != "" {
		return becomeOther(args, note)
	}
	dir, err := ownDir()
	if err != nil {
		return err
	}
	if stat, err := os.Stat(filepath.Join(dir, "runc")); err != nil || stat.Mode().Perm()&0o111 == 0 {
		return fmt.Errorf("%s: %w", shimName,
			errors.Join(err, fmt.Errorf("there has to be a link %s/runc to %s", dir, ociName)))
	}
	return execShim(realShim, args, shimEnviron(os.Environ(), dir))
}

// execShim replaces this program by another shim. Like containerd, it looks for the shim on PATH and then beside this
// program.
func execShim(name string, args, environ []string) error {
	shim, err := findOther(name, os.Getenv("PATH")+string(filepath.ListSeparator)+filepath.Dir(args[0]))
	if err != nil {
		return err
	}
	if err := syscall.Exec(shim, slices.Concat([]string{shim}, args[1:]), environ); err != nil {
		return fmt.Errorf("start %s: %w", shim, err)
	}
	return nil
}

// becomeOther replaces this program by the shim of the note. containerd starts a shim in the container's bundle.
func becomeOther(args []string, note ocinote.Note) error {
	const file = "config.json"
	if slices.Contains(args, "start") {
		config, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if err := rewrite(file, config, note, ocinote.EditSpec); err != nil {
			return err
		}
	}
	return execShim(note.Runtime.Shim, args, os.Environ())
}

// flagValue returns the value of a flag of a shim, empty without one.
func flagValue(args []string, flag string) string {
	if i := slices.Index(args, flag); i >= 0 && i+1 < len(args) {
		return args[i+1]
	}
	return ""
}

const (
	pathVariable = "PATH="
	// keptVariable holds containerd's PATH in the shim's environment.
	keptVariable = "CRIADAPTER_PATH="
)

// shimEnviron returns the environment of runc's shim. Its PATH is dir alone. If the link is missing there, the shim
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

// realEnviron returns the environment of the real runtime. Its PATH is containerd's without dir: a wrapper that looks
// for runc must not find this program.
func realEnviron(environ []string, dir string) []string {
	path, kept := lookup(environ, keptVariable)
	if !kept { // run by the engine itself, or by an earlier version's shim, which put dir first
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

package ociexec

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
	"syscall"

	"github.com/criadapter/criadapter/internal/ocinote"
)

// kinds caches the name and version of runtime programs. A replaced program is asked again.
type kinds struct {
	mu    sync.Mutex
	known map[program]string
}

// program identifies a file and its content.
type program struct {
	path        string
	dev, ino    uint64
	size, mtime int64
}

// ofContainer returns the name and version of a container's runtime. If the container has a note, this is the real
// runtime that the note names. criadapter-oci would answer --version for the engine's default runtime instead.
func (k *kinds) ofContainer(ctx context.Context, c *Container) (string, error) {
	if !ocinote.IsID(c.id) {
		return k.ofProgram(ctx, c.program, c.environ)
	}
	note, err := notesOf(c.program).Load(c.id)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return k.ofProgram(ctx, c.program, c.environ)
	case err != nil:
		return "", unsuitable("%w", err)
	case note.Runtime.Path == "":
		return "", unsuitable("the container's note names no runtime")
	}
	environ := c.environ
	for _, variable := range c.environ {
		if path, kept := strings.CutPrefix(variable, keptVariable); kept {
			environ = []string{pathVariable + path}
		}
	}
	real, err := lookUp(note.Runtime.Path, environ)
	if err != nil {
		return "", err
	}
	return k.ofProgram(ctx, real, environ)
}

// notesOf returns the directory of notes of a container's program. For a runtime with arguments, the engine writes a
// script of two lines. The second line has the program and the arguments.
func notesOf(program string) ocinote.Dir {
	const first, longest = "#!/bin/sh\n", 4096
	file, err := os.Open(program)
	if err != nil {
		return ocinote.DefaultDir
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, longest))
	if err != nil || !strings.HasPrefix(string(text), first) {
		return ocinote.DefaultDir
	}
	return ocinote.DirOf(strings.Fields(string(text)))
}

// ofProgram returns the name and version of a runtime. It fails with ErrUnsuitable for a program that is neither runc
// nor a wrapper of runc: only runc's commands were compared with the engine's.
func (k *kinds) ofProgram(ctx context.Context, path string, environ []string) (string, error) {
	stat, err := os.Stat(path)
	if err != nil {
		return "", unsuitable("%w", err)
	}
	id := program{path: path, size: stat.Size(), mtime: stat.ModTime().UnixNano()}
	if s, ok := stat.Sys().(*syscall.Stat_t); ok {
		id.dev, id.ino = s.Dev, s.Ino
	}
	kind, found := k.look(id)
	if !found {
		if kind, err = askVersion(ctx, path, environ); err != nil {
			return "", unsuitable("%s --version: %w", path, err)
		}
		k.keep(id, kind)
	}
	if !strings.HasPrefix(kind, "runc version ") {
		return "", unsuitable("%s is not runc", path)
	}
	return kind, nil
}

func (k *kinds) look(id program) (kind string, found bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	kind, found = k.known[id]
	return kind, found
}

func (k *kinds) keep(id program, kind string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.known == nil {
		k.known = map[program]string{}
	}
	k.known[id] = kind
}

// askVersion returns the first line that a program prints for --version.
func askVersion(ctx context.Context, path string, environ []string) (string, error) {
	output, err := askRuntime(ctx, environ, path, "--version")
	if err != nil {
		return "", err
	}
	first, _, _ := strings.Cut(string(output), "\n")
	return first, nil
}

package ociexec

import (
	"context"
	"os"
	"strings"
	"sync"
	"syscall"
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

// of returns the name and version of a runtime. It returns ErrUnsuitable for a program that is neither runc nor a
// wrapper that runs it. Only runc's commands have been compared with the engine's commands.
func (k *kinds) of(ctx context.Context, path string, environ []string) (string, error) {
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

// Package gomod runs the go command for pinned modules of other projects, and in changed copies of them.
package gomod

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// Command runs a go command in dir with environ added to its environment, and returns its stdout. It uses no workspace:
// one around this repository must not change pinned versions. The error has all output.
func Command(ctx context.Context, dir string, environ []string, args ...string) ([]byte, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Env = dir, append(append(os.Environ(), "GOWORK=off"), environ...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("go %s: %w\n%s%s", strings.Join(args, " "), err, stderr.String(), stdout.String())
	}
	return stdout.Bytes(), nil
}

// Module is a module in the module cache.
type Module struct {
	// Dir is its directory, and Sum its checksum as in go.sum.
	Dir, Sum string
}

// Download returns a module, given as path@version, or as a path that the go.mod of dir requires. It downloads the
// module if it is missing.
func Download(ctx context.Context, dir, module string) (Module, error) {
	output, err := Command(ctx, dir, nil, "mod", "download", "-json", module)
	if err != nil {
		return Module{}, err
	}
	var downloaded Module
	if err := json.Unmarshal(output, &downloaded); err != nil {
		return Module{}, fmt.Errorf("go mod download -json %s: %w", module, err)
	}
	return downloaded, nil
}

// InCopy calls f with a temporary copy of a module's directory. A directory of the module cache cannot be the main
// module, and its files must not change.
func InCopy(module string, f func(dir string) error) error {
	dir, err := os.MkdirTemp("", "criadapter-module-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.CopyFS(dir, os.DirFS(module)); err != nil {
		return fmt.Errorf("copy %s: %w", module, err)
	}
	return f(dir)
}

// ReplaceOnce replaces a string in a file of a copy from InCopy. If the string does not occur exactly once, the
// replacement was written for another version, and ReplaceOnce fails.
func ReplaceOnce(path, old, new string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if n := bytes.Count(content, []byte(old)); n != 1 {
		return fmt.Errorf("%s has %s %d times instead of once: adapt the patch to this version", filepath.Base(path),
			old, n)
	}
	return os.WriteFile(path, bytes.Replace(content, []byte(old), []byte(new), 1), 0o644)
}

// Root returns the directory of criadapter's module, in which the current directory must be.
func Root(ctx context.Context) (string, error) {
	output, err := Command(ctx, "", nil, "list", "-m", "-f", "{{.Dir}}")
	return strings.TrimSpace(string(output)), err
}

// Native returns environment variables that make the go command compile for this machine, whatever the caller's
// environment says.
func Native() []string {
	return []string{"GO111MODULE=on", "GOOS=" + runtime.GOOS, "GOARCH=" + runtime.GOARCH}
}

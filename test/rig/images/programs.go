package images

import (
	"bytes"
	"context"
	"embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// sources are this package's own files: the programs to compile, and the recipes. A change of any of them makes cached
// images stale.
//
//go:embed *.go program/*/main.go
var sources embed.FS

// compile builds program/NAME/main.go as a static binary and returns its content. One Go version gives the same content
// on every machine. compile needs the go command, and the programs import only the standard library.
func compile(ctx context.Context, name, architecture string) ([]byte, error) {
	source, err := sources.ReadFile("program/" + name + "/main.go")
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "criadapter-image-program-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, "main.go"), source, 0o644); err != nil {
		return nil, err
	}
	binary := filepath.Join(dir, name)
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w -buildid=", "-o",
		binary, "main.go")
	cmd.Dir = dir
	// The caller's flags and workspace are for the caller's module, not for this file.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off", "GOOS=linux", "GOARCH="+architecture)
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("compile the image program %s: %w\n%s", name, err, output.String())
	}
	return os.ReadFile(binary)
}

// goVersion returns the version of the go command that compile uses.
func goVersion(ctx context.Context) (string, error) {
	output, err := exec.CommandContext(ctx, "go", "env", "GOVERSION").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOVERSION: %w; the images' programs are compiled with Go", err)
	}
	return string(bytes.TrimSpace(output)), nil
}

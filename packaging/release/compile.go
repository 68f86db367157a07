package main

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// programs are those of a release.
func programs() []string { return []string{"criadapter", "criadapter-oci", "kubelet-core"} }

// build is the programs of one architecture.
type build struct {
	architecture, dir string
}

func (b build) path(program string) string { return filepath.Join(b.dir, program) }

// compile builds the programs as `make build` does, but for the paths and times of this machine.
func (r release) compile(ctx context.Context, architecture, dir string) (build, error) {
	b := build{architecture: architecture, dir: dir}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return b, err
	}
	args := []string{"build", "VERSION=" + r.name, "OUT=" + dir + "/", "BUILDFLAGS=-buildvcs=false"}
	_, err := output(ctx, r.source, []string{"GOARCH=" + architecture, "GOOS=linux", "GOFLAGS=", "GOAMD64=v1"}, "make", append([]string{"--no-print-directory"}, args...)...)
	return b, err
}

// module is one that is linked into programs.
type module struct {
	path, version string
	programs      []string
}

// modules are those that the programs are linked of, without ours and with the standard library, by path.
func (b build) modules() ([]module, error) {
	found := map[string]*module{}
	add := func(program, path, version string) {
		if found[path] == nil {
			found[path] = &module{path: path, version: version}
		}
		found[path].programs = append(found[path].programs, program)
	}
	for _, program := range programs() {
		info, err := buildinfo.ReadFile(b.path(program))
		if err != nil {
			return nil, err
		}
		add(program, standardLibrary, strings.TrimPrefix(info.GoVersion, "go"))
		for _, dep := range info.Deps {
			if dep.Replace != nil {
				return nil, fmt.Errorf("%s is replaced by %s: its licence and its version are not known", dep.Path, dep.Replace.Path)
			}
			add(program, dep.Path, dep.Version)
		}
	}
	var list []module
	for _, path := range slices.Sorted(maps.Keys(found)) {
		list = append(list, *found[path])
	}
	return list, nil
}

// standardLibrary is the path by which Go's own tools name it.
const standardLibrary = "stdlib"

// output runs a program in dir and returns what it prints, without the line's end. Its complaints are the error.
func output(ctx context.Context, dir string, environ []string, name string, args ...string) (string, error) {
	var out, complaints bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), environ...)
	cmd.Stdout, cmd.Stderr = &out, &complaints
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s%s", name, strings.Join(args, " "), err, out.String(), complaints.String())
	}
	return strings.TrimSpace(out.String()), nil
}

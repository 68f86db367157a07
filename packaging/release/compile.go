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

// programs are the programs of a release.
func programs() []string { return []string{"criadapter", "criadapter-oci", "kubelet-core"} }

// build has the programs of one architecture.
type build struct {
	architecture, dir string
	// terms are the licences of all linked modules.
	terms []byte
}

func (b build) path(program string) string { return filepath.Join(b.dir, program) }

// compile builds the programs like `make build`, but without paths and times of this machine.
func (r release) compile(ctx context.Context, architecture, dir string) (build, error) {
	b := build{architecture: architecture, dir: dir}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return b, err
	}
	args := []string{"build", "VERSION=" + r.name, "OUT=" + dir + "/", "BUILDFLAGS=-buildvcs=false"}
	_, err := output(ctx, r.source, []string{"GOARCH=" + architecture, "GOOS=linux", "GOFLAGS=", "GOAMD64=v1"}, "make",
		append([]string{"--no-print-directory"}, args...)...)
	return b, err
}

// module is a module that is linked into programs.
type module struct {
	path, version string
	programs      []string
}

// modules returns the modules of the programs, ordered by path. They include the standard library, but not this module.
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
				return nil, fmt.Errorf("%s is replaced by %s: its licence and its version are not known", dep.Path,
					dep.Replace.Path)
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

// standardLibrary is the path of the standard library in Go's own tools.
const standardLibrary = "stdlib"

// output runs a program in dir and returns its output without the final line end. An error has its standard error, too.
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

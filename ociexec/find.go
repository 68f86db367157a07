package ociexec

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/criadapter/criadapter/internal/proctable"
	"github.com/criadapter/criadapter/internal/shimdir"
)

// Container is a running container that the runtime can enter.
type Container struct {
	// Kind is the name and version of the runtime that created the container.
	Kind string

	// id is the engine's id, and the runtime's.
	id string
	// program is the runtime's path, and root its state directory.
	program, root string
	// systemd says that systemd manages the container's cgroup.
	systemd bool
	// environ is the runtime's environment: the search path of the shim.
	environ []string
	process object
	// umask and limits are the ones that the engine's commands inherit.
	umask  int
	limits []limit
}

// Find looks up the running container whose first process is pid. Except for the limit of open files, it trusts only
// what the shim and the runtime wrote, and nothing that the container can write. It fails with ErrUnsuitable if the
// container's commands need the engine.
func (r *Runner) Find(ctx context.Context, id string, pid int) (*Container, error) {
	c, bundle, shim, err := r.locateRunc(ctx, id, pid)
	if err != nil {
		return nil, err
	}
	if c.process, err = readProcess(filepath.Join(bundle, "config.json")); err != nil {
		return nil, err
	}
	if err := sameInheritance(r.proc, shim, c.process); err != nil {
		return nil, err
	}
	if err := sameIOPriority(shim); err != nil {
		return nil, err
	}
	if c.umask, err = inheritedUmask(r.proc, shim); err != nil {
		return nil, err
	}
	c.limits, err = inheritedLimits(r.proc, shim, pid)
	return c, err
}

// locateRunc calls locate, and fails with ErrUnsuitable if the container's runtime is not runc.
func (r *Runner) locateRunc(
	ctx context.Context, id string, pid int,
) (c *Container, bundle string, shim int, err error) {
	if c, bundle, shim, err = locate(r.proc, id, pid); err != nil {
		return nil, "", 0, err
	}
	if c.Kind, err = r.kinds.ofContainer(ctx, c); err != nil {
		return nil, "", 0, err
	}
	if _, err := os.Stat(filepath.Join(c.root, c.id)); err != nil {
		return nil, "", 0, unsuitable("the runtime has no state of the container in %s", c.root)
	}
	return c, bundle, shim, nil
}

// locate finds the bundle of the container whose first process is pid, its shim, and how the shim calls the runtime.
func locate(proc, id string, pid int) (c *Container, bundle string, parent int, err error) {
	process, err := proctable.Read(pid)
	if err != nil {
		return nil, "", 0, unsuitable("the container's process has ended")
	}
	if !proctable.InContainer(pid, id) {
		return nil, "", 0, unsuitable("the container's process has ended, and another process has its process id")
	}
	parent = process.Parent
	if bundle, err = shimdir.Bundle(proc, id, pid, parent); err != nil {
		return nil, "", 0, unsuitable("%w", err)
	}
	c = &Container{id: id}
	return c, bundle, parent, c.readOptions(bundle, filepath.Base(filepath.Dir(bundle)), parent)
}

// defaultRoot is the runtime's state directory if the container's options name none.
const defaultRoot = "/run/containerd/runc"

// readOptions reads how the shim calls the runtime.
func (c *Container) readOptions(bundle, namespace string, shim int) error {
	text, err := os.ReadFile(filepath.Join(bundle, "options.json"))
	if err != nil {
		return unsuitable("%w", err)
	}
	var options struct {
		BinaryName    string `json:"binary_name"`
		Root          string `json:"root"`
		SystemdCgroup bool   `json:"systemd_cgroup"`
	}
	if err := json.Unmarshal(text, &options); err != nil {
		return unsuitable("%s: %w", filepath.Join(bundle, "options.json"), err)
	}
	c.root, c.systemd = filepath.Join(cmp.Or(options.Root, defaultRoot), namespace), options.SystemdCgroup
	c.environ, err = searchPaths(shim)
	if err == nil {
		c.program, err = lookUp(cmp.Or(options.BinaryName, "runc"), c.environ)
	}
	return err
}

// pathVariable is the variable with the search path. If criadapter-oci is the shim, keptVariable has the search path
// for the real runtime.
const pathVariable, keptVariable = "PATH=", "CRIADAPTER_PATH="

// searchPaths returns a shim's variables with search paths.
func searchPaths(shim int) ([]string, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", shim))
	if err != nil {
		return nil, unsuitable("the shim's search path: %w", err)
	}
	var found []string
	for variable := range strings.SplitSeq(string(text), "\x00") {
		if strings.HasPrefix(variable, pathVariable) || strings.HasPrefix(variable, keptVariable) {
			found = append(found, variable)
		}
	}
	return found, nil
}

// lookUp finds a program on the search path of environ.
func lookUp(name string, environ []string) (string, error) {
	if filepath.IsAbs(name) {
		return name, nil
	}
	for _, variable := range environ {
		list, found := strings.CutPrefix(variable, pathVariable)
		if !found {
			continue
		}
		for _, dir := range filepath.SplitList(list) {
			path := filepath.Join(dir, name)
			stat, err := os.Stat(path)
			if filepath.IsAbs(path) && err == nil && stat.Mode().IsRegular() && stat.Mode().Perm()&0o111 != 0 {
				return path, nil
			}
		}
	}
	return "", unsuitable("the runtime %s is not on the shim's search path", name)
}

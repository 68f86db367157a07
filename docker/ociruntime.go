package docker

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/moby/moby/api/types/system"

	"github.com/criadapter/criadapter/internal/ocinote"
)

// OCIRuntimeMode says whether the runtime criadapter-oci is used.
type OCIRuntimeMode string

// The modes. The empty mode means OCIRuntimeOff.
const (
	// OCIRuntimeAuto uses the runtime if the engine has it and it works.
	OCIRuntimeAuto OCIRuntimeMode = "auto"
	// OCIRuntimeOff does not use the runtime.
	OCIRuntimeOff OCIRuntimeMode = "off"
	// OCIRuntimeRequired refuses an engine whose runtime is missing or does not work.
	OCIRuntimeRequired OCIRuntimeMode = "required"
)

// OCIRuntime is the engine's runtime that reads the notes of containers (package ocinote): criadapter-oci in front of
// the engine's default runtime. The zero value means that the engine has none.
type OCIRuntime struct {
	// Name is the engine's name of the runtime: from daemon.json, or containerd's name of the shim. It is empty if the
	// engine has none. Pods cannot use it as a runtime handler, and Features.Runtimes leaves it out.
	Name string
	// Notes is the directory from which the runtime reads notes.
	Notes ocinote.Dir
	// Fault says why new pods and containers do not use the runtime. It is empty after a probe has shown that the
	// runtime works. Containers of existing pods that use the runtime still get their notes.
	Fault string
	// RecursiveReadOnly says whether the kernel and the engine's default runtime support recursive read-only mounts.
	RecursiveReadOnly bool
	// UserNamespaces says whether containers can join a user namespace. NoUserNamespaces says why they cannot, if the
	// reason is known.
	UserNamespaces   bool
	NoUserNamespaces string
}

// Works reports whether new pods and containers may use the runtime.
func (r OCIRuntime) Works() bool { return r.Name != "" && r.Fault == "" }

const ociProgram = "criadapter-oci"

// installRuntime is the advice on how to give an engine the runtime.
const installRuntime = `install criadapter-oci and, for an engine before 23, add "runtimes": {"criadapter": ` +
	`{"path": "/usr/bin/criadapter-oci"}} ` +
	"to daemon.json (systemctl reload docker), or use --oci-runtime=auto"

// findOCIRuntime returns the engine's OCI runtime and the real runtime behind it. Both are empty if the engine has
// none. A runtime in daemon.json takes precedence over the shim, because the engine passes its own options only to
// runtimes in daemon.json.
func findOCIRuntime(info system.Info, shim bool) (OCIRuntime, ocinote.Runtime, error) {
	for _, name := range slices.Sorted(maps.Keys(info.Runtimes)) {
		runtime := info.Runtimes[name].Runtime
		if path.Base(runtime.Path) != ociProgram {
			continue
		}
		if name == info.DefaultRuntime {
			return OCIRuntime{}, ocinote.Runtime{}, fmt.Errorf(
				"default-runtime of daemon.json is %[1]s, whose program is %[2]s: set it to the runtime that %[2]s "+
					"must call", name, ociProgram)
		}
		real, err := realRuntime(info.Runtimes, info.DefaultRuntime)
		return OCIRuntime{Name: name, Notes: ocinote.DirOf(runtime.Args)}, real, err
	}
	if !shim {
		return OCIRuntime{}, ocinote.Runtime{}, nil
	}
	real, err := realRuntime(info.Runtimes, info.DefaultRuntime)
	return OCIRuntime{Name: shimRuntime, Notes: ocinote.DefaultDir}, real, err
}

// realRuntime returns the program and the arguments of the engine's runtime with that name.
func realRuntime(runtimes map[string]system.RuntimeWithStatus, name string) (ocinote.Runtime, error) {
	real := runtimes[name].Runtime
	if binary, ok := real.Options["BinaryName"].(string); ok && real.Path == "" {
		real.Path = binary
	}
	if real.Path == "" && real.Type == "" && strings.HasPrefix(name, "io.containerd.runc.") {
		real.Path = "runc"
	}
	if real.Path == "" {
		return ocinote.Runtime{}, fmt.Errorf("the runtime %q has no program that %s could run", name, ociProgram)
	}
	return ocinote.Runtime{Path: real.Path, Args: real.Args}, nil
}

// withoutOCIRuntime returns the runtimes that pods may name: all but criadapter-oci and its shim.
func withoutOCIRuntime(runtimes map[string]system.RuntimeWithStatus) map[string]system.RuntimeWithStatus {
	others := maps.Clone(runtimes)
	maps.DeleteFunc(others, func(name string, r system.RuntimeWithStatus) bool {
		return path.Base(r.Path) == ociProgram || r.Type == shimRuntime || name == shimRuntime
	})
	return others
}

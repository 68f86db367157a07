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

// The modes. An empty one is OCIRuntimeOff.
const (
	// OCIRuntimeAuto uses it where the engine has it and it works.
	OCIRuntimeAuto OCIRuntimeMode = "auto"
	// OCIRuntimeOff does not look for it.
	OCIRuntimeOff OCIRuntimeMode = "off"
	// OCIRuntimeRequired refuses an engine where it is missing or does not work.
	OCIRuntimeRequired OCIRuntimeMode = "required"
)

// OCIRuntime is the engine's runtime that reads the notes of containers (package ocinote): criadapter-oci in front of
// the engine's default runtime. The zero value means that the engine has none.
type OCIRuntime struct {
	// Name is the engine's name for it: from daemon.json, or containerd's for the shim. It is empty for none. It is no
	// runtime handler for pods, and not among Features.Runtimes.
	Name string
	// Notes is where it looks for notes.
	Notes ocinote.Dir
	// Fault says why new containers do not use the runtime, empty where a container has proved that it works.
	// Containers of its existing pods still get their notes.
	Fault string
	// RecursiveReadOnly says whether the default runtime behind it and the kernel make
	// mounts read-only with all that is mounted below them.
	RecursiveReadOnly bool
	// UserNamespaces says whether containers can join a user namespace, and
	// NoUserNamespaces why not, where that is known.
	UserNamespaces   bool
	NoUserNamespaces string
}

// Works reports whether new pods and containers may use the runtime.
func (r OCIRuntime) Works() bool { return r.Name != "" && r.Fault == "" }

// ociProgram is the name of the program.
const ociProgram = "criadapter-oci"

// installRuntime says how an engine gets the runtime.
const installRuntime = `install criadapter-oci and, for an engine before 23, add "runtimes": {"criadapter": {"path": "/usr/bin/criadapter-oci"}} ` +
	"to daemon.json (systemctl reload docker), or use --oci-runtime=auto"

// findOCIRuntime returns the engine's OCI runtime and the real one behind it, both empty without one. A runtime of
// daemon.json is preferred to the shim, because the engine passes it its own options.
func findOCIRuntime(info system.Info, shim bool) (OCIRuntime, ocinote.Runtime, error) {
	for _, name := range slices.Sorted(maps.Keys(info.Runtimes)) {
		runtime := info.Runtimes[name].Runtime
		if path.Base(runtime.Path) != ociProgram {
			continue
		}
		if name == info.DefaultRuntime {
			return OCIRuntime{}, ocinote.Runtime{}, fmt.Errorf("the runtime %s is %s and default-runtime of daemon.json: it needs another one behind it", name, ociProgram)
		}
		real, err := realRuntime(info.Runtimes, info.DefaultRuntime)
		return OCIRuntime{Name: name, Notes: notesOf(runtime.Args)}, real, err
	}
	if !shim {
		return OCIRuntime{}, ocinote.Runtime{}, nil
	}
	real, err := realRuntime(info.Runtimes, info.DefaultRuntime)
	return OCIRuntime{Name: shimRuntime, Notes: ocinote.DefaultDir}, real, err
}

// notesOf reads the program's own flag in runtimeArgs of daemon.json.
func notesOf(args []string) ocinote.Dir {
	const flag = "--" + ocinote.DirFlag
	for i, arg := range args {
		if dir, ok := strings.CutPrefix(arg, flag+"="); ok {
			return ocinote.Dir(dir)
		}
		if arg == flag && i+1 < len(args) {
			return ocinote.Dir(args[i+1])
		}
	}
	return ocinote.DefaultDir
}

// realRuntime is the program of one of the engine's runtimes.
func realRuntime(runtimes map[string]system.RuntimeWithStatus, name string) (ocinote.Runtime, error) {
	real := runtimes[name].Runtime
	if binary, ok := real.Options["BinaryName"].(string); ok && real.Path == "" {
		real.Path = binary
	}
	if real.Path == "" && real.Type == "" && strings.HasPrefix(name, "io.containerd.runc.") {
		real.Path = "runc"
	}
	if real.Path == "" {
		return ocinote.Runtime{}, fmt.Errorf("the runtime %q has no program that %s could become", name, ociProgram)
	}
	return ocinote.Runtime{Path: real.Path, Args: real.Args}, nil
}

// withoutOCIRuntime are the names of runtimes that pods may name.
func withoutOCIRuntime(runtimes map[string]system.RuntimeWithStatus) map[string]system.RuntimeWithStatus {
	others := maps.Clone(runtimes)
	maps.DeleteFunc(others, func(name string, r system.RuntimeWithStatus) bool {
		return path.Base(r.Path) == ociProgram || r.Type == shimRuntime || name == shimRuntime
	})
	return others
}

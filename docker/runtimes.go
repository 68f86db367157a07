package docker

import (
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/moby/moby/api/types/system"
)

// sandboxedPrograms are words in the names of programs and shims that boot a virtual machine or bring a network stack
// of their own: Kata Containers and its forerunner runV, gVisor, Firecracker, Quark, the unikernels of urunc and Nabla,
// and nerdbox.
var sandboxedPrograms = []string{
	"kata", "katacontainers", "runv", "runsc", "gvisor", "firecracker", "quark", "urunc", "runnc", "nerdbox",
}

// sandboxedRuntimes returns the runtimes with a virtual machine or a network stack of their own, in lexical order. Any
// other runtime counts as a wrapper of runc, which runs processes in namespaces of the node's kernel. The default may
// be a shim that is not among the runtimes.
func sandboxedRuntimes(runtimes map[string]system.RuntimeWithStatus, fallback string) []string {
	candidates := slices.AppendSeq([]string{fallback}, maps.Keys(runtimes))
	slices.Sort(candidates)
	var names []string
	for _, name := range slices.Compact(candidates) {
		if isSandboxed(name, runtimes[name].Runtime) {
			names = append(names, name)
		}
	}
	return names
}

// scriptedRuntimes returns the runtimes with arguments, in lexical order.
func scriptedRuntimes(runtimes map[string]system.RuntimeWithStatus) []string {
	return namesOf(runtimes, func(name string) bool { return len(runtimes[name].Args) > 0 })
}

// namesOf returns the names for which accept returns true, in lexical order, nil for none.
func namesOf(runtimes map[string]system.RuntimeWithStatus, accept func(name string) bool) []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(runtimes)) {
		if accept(name) {
			names = append(names, name)
		}
	}
	return names
}

// podSandboxProgram is gVisor's program, the only one that was tested with pods in one sandbox.
const podSandboxProgram = "runsc"

// podSandboxRuntimes returns the runtimes that are podSandboxProgram, in lexical order. It leaves out runtimes with a
// shim of their own, because criadapter-oci is in front of programs that runc's shim calls.
func podSandboxRuntimes(runtimes map[string]system.RuntimeWithStatus) []string {
	return namesOf(runtimes, func(name string) bool {
		real, err := realRuntime(runtimes, name)
		return err == nil && path.Base(real.Path) == podSandboxProgram
	})
}

// ownShims returns the shims of Kata Containers by the names of their runtimes. The engine does not report the shim of
// a runtime, so ownShims derives it from the runtime's name: kata has containerd-shim-kata-v2, and kata-qemu has
// containerd-shim-kata-qemu-v2. dir is the directory of the engine's process in /proc. ownShims leaves out shims that
// the engine's containerd would not find, see hasShim.
func ownShims(runtimes map[string]system.RuntimeWithStatus, dir string) map[string]string {
	shims := map[string]string{}
	for name, runtime := range runtimes {
		shim := "containerd-shim-" + name + "-v2"
		if (name == "kata" || strings.HasPrefix(name, "kata-")) && runtime.Path == "" && hasShim(dir, shim) {
			shims[name] = shim
		}
	}
	return shims
}

// isSandboxed looks at a runtime's program and shim, not at the name that the operator chose. A runtime with neither a
// program nor a shim in daemon.json is a shim itself, and name is the shim's name.
func isSandboxed(name string, runtime system.Runtime) bool {
	if runtime.Path == "" && runtime.Type == "" {
		return hasSandboxedWord(name)
	}
	binary, _ := runtime.Options["BinaryName"].(string)
	return slices.ContainsFunc([]string{runtime.Path, runtime.Type, binary}, hasSandboxedWord)
}

// hasSandboxedWord looks at the words of a program's or a shim's name, such as
// kata-runtime, io.containerd.runsc.v1 and containerd-shim-kata-v2.
func hasSandboxedWord(program string) bool {
	words := strings.FieldsFunc(strings.ToLower(path.Base(program)), func(r rune) bool {
		return r == '-' || r == '.' || r == '_'
	})
	return slices.ContainsFunc(words, func(word string) bool {
		return slices.Contains(sandboxedPrograms, strings.TrimRight(word, "0123456789"))
	})
}

package docker

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
)

const (
	// shimRuntime is the runtime's name on an engine that does not configure it: containerd runs shimProgram for it.
	shimRuntime = "io.containerd.criadapter.v2"
	shimProgram = "containerd-shim-criadapter-v2"
	// apiShim is the API version since which containers may name a shim (Docker Engine 23).
	apiShim = "1.42"
)

// hasShim reports whether an engine's containerd would find a shim's program on its PATH or beside dockerd. dir is the
// directory in /proc of the engine's process, which has the same PATH as containerd: both inherit it from systemd, or
// containerd from the engine. A probe container later shows whether containerd really does.
func hasShim(dir, program string) bool {
	root := filepath.Join(dir, "root")
	for _, place := range append(searchPath(dir), programDir(dir)) {
		if !filepath.IsAbs(place) {
			continue
		}
		// Lstat, because an absolute link would lead to a file outside of root.
		if stat, err := os.Lstat(filepath.Join(root, place, program)); err == nil && !stat.IsDir() {
			return true
		}
	}
	return false
}

// searchPath returns the PATH of a process, nil if it cannot be read.
func searchPath(dir string) []string {
	environ, _ := os.ReadFile(filepath.Join(dir, "environ"))
	for variable := range bytes.SplitSeq(environ, []byte{0}) {
		if path, ok := strings.CutPrefix(string(variable), "PATH="); ok {
			return filepath.SplitList(path)
		}
	}
	return nil
}

// programDir returns the directory of a process's program.
func programDir(dir string) string {
	program, _ := os.Readlink(filepath.Join(dir, "exe"))
	return filepath.Dir(program)
}

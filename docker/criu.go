package docker

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
)

// checkpointSysctl is there in kernels with CONFIG_CHECKPOINT_RESTORE alone.
const checkpointSysctl = "sys/kernel/ns_last_pid"

// defaultPath is where programs are looked for when an engine's environment cannot be read.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// noCheckpoint says what an engine lacks to checkpoint containers and to restore them, nothing when it lacks nothing
// that can be seen from here: its experimental features, which the checkpoint API is one of, CRIU, which the OCI runtime
// looks for on its path, and a kernel that lets itself be looked into. proc is /proc, process the directory there of the
// engine, see witness.
func noCheckpoint(experimental bool, proc, process string) string {
	var missing []string
	if !experimental {
		missing = append(missing, "the engine's experimental features (set experimental to true in daemon.json)")
	}
	if !hasProgram(process, "criu") {
		missing = append(missing, "the program criu (install CRIU on the node)")
	}
	if _, err := os.Stat(filepath.Join(proc, checkpointSysctl)); err != nil {
		missing = append(missing, "a kernel with CONFIG_CHECKPOINT_RESTORE")
	}
	return strings.Join(missing, ", ")
}

// hasProgram looks for a program on a process's path, in its own root.
func hasProgram(process, name string) bool {
	for _, dir := range filepath.SplitList(pathOf(process)) {
		info, err := os.Stat(filepath.Join(process, "root", dir, name))
		if err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return true
		}
	}
	return false
}

// pathOf returns the variable PATH of a process.
func pathOf(process string) string {
	environ, err := os.ReadFile(filepath.Join(process, "environ"))
	if err != nil {
		return defaultPath
	}
	for variable := range bytes.SplitSeq(environ, []byte{0}) {
		if path, ok := bytes.CutPrefix(variable, []byte("PATH=")); ok {
			return string(path)
		}
	}
	return defaultPath
}

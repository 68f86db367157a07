package docker

import (
	"os"
	"path/filepath"
	"strings"
)

// checkpointSysctl exists only in kernels with CONFIG_CHECKPOINT_RESTORE.
const checkpointSysctl = "sys/kernel/ns_last_pid"

// defaultPath is the assumed PATH of an engine whose environment cannot be read.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// noCheckpoint lists the missing requirements for checkpoint and restore, as far as criadapter can see them. The
// checkpoint API is experimental, the OCI runtime looks for CRIU on its PATH, and the kernel needs
// CONFIG_CHECKPOINT_RESTORE. proc is /proc, and process is the engine's directory in it, see witness.
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

// hasProgram reports whether a program is on a process's PATH, within the process's root directory.
func hasProgram(process, name string) bool {
	dirs := searchPath(process)
	if dirs == nil {
		dirs = filepath.SplitList(defaultPath)
	}
	for _, dir := range dirs {
		info, err := os.Stat(filepath.Join(process, "root", dir, name))
		if err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return true
		}
	}
	return false
}

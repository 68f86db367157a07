package docker

import (
	"os"
	"path/filepath"
	"strings"
)

// checkpointSysctl is there in kernels with CONFIG_CHECKPOINT_RESTORE alone.
const checkpointSysctl = "sys/kernel/ns_last_pid"

// defaultPath is where programs are looked for when an engine's environment cannot be read.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// noCheckpoint lists what an engine lacks to checkpoint and restore containers, as far as it can be seen from here. The
// checkpoint API is experimental, the OCI runtime looks for CRIU on its PATH, and the kernel needs
// CONFIG_CHECKPOINT_RESTORE. proc is /proc, and process the engine's directory there, see witness.
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

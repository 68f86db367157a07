package ocinote

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// Runtime is the engine's real OCI runtime.
type Runtime struct {
	// Path is the program's path, or its name on the engine's PATH.
	Path string `json:"path"`
	// Args come before the arguments of each call.
	Args []string `json:"args,omitempty"`
	// Shim is the program of the runtime's own shim, empty for runc's shim. A runtime with its own shim needs no Path.
	Shim string `json:"shim,omitempty"`
}

// SandboxPIDSuffix is added to the name of a command's pid file. The file with this longer name has the command's
// process id inside of the sandbox (see Note.InSandbox). The runtime signals the command by that id only.
const SandboxPIDSuffix = ".sandbox"

// runtimeFile is not a container id, so it cannot collide with a note.
const runtimeFile = "runtime.json"

// SaveRuntime saves the real runtime atomically.
func (d Dir) SaveRuntime(r Runtime) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return d.write(filepath.Join(string(d), runtimeFile), text)
}

// LoadRuntime returns the runtime that SaveRuntime saved. Without one the error is fs.ErrNotExist.
func (d Dir) LoadRuntime() (Runtime, error) {
	path := filepath.Join(string(d), runtimeFile)
	text, err := os.ReadFile(path)
	if err != nil {
		return Runtime{}, err
	}
	var r Runtime
	if err := json.Unmarshal(text, &r); err != nil {
		return Runtime{}, fmt.Errorf("%s: %w", path, err)
	}
	if r.Path == "" {
		return Runtime{}, fmt.Errorf("%s names no program", path)
	}
	return r, nil
}

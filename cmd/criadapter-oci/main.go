// Command criadapter-oci is an OCI runtime for Docker Engine that edits what it is
// given and then becomes the engine's real runtime, with the same arguments. For
// `create` it takes the note that criadapter left for the container (see package
// ocinote) and edits the bundle's config.json, for `exec` the process that is to run;
// the other commands of runc and crun pass untouched, and what is none of them is refused.
//
// A container without a valid note is refused: it is one that criadapter has not
// made, or one of before the machine started again, and its configuration lacks what
// was to protect the host from it.
//
// Under the name containerd-shim-criadapter-v2 it is a shim of containerd's: it becomes
// runc's shim, with itself as runc.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

func main() {
	if filepath.Base(os.Args[0]) == shimName {
		refuse(call{}, becomeShim(os.Args))
		os.Exit(1)
	}
	call := parseCall(os.Args[1:])
	err := prepare(&call)
	if err == nil {
		err = become(call)
	}
	refuse(call, err)
	os.Exit(1)
}

// become replaces this program by the real runtime. It returns only when that fails.
func become(c call) error {
	dir, err := ownDir()
	if err != nil {
		return err
	}
	environ := realEnviron(os.Environ(), dir)
	runtime, err := c.runtime(environ)
	if err != nil {
		return err
	}
	argv := append([]string{runtime.Path}, runtime.Args...)
	if err := syscall.Exec(runtime.Path, append(argv, c.args...), environ); err != nil {
		return fmt.Errorf("start the OCI runtime %s: %w", runtime.Path, err)
	}
	return nil
}

// refuse says why nothing was done, on the standard error and where the engine looks
// for a runtime's reason: the last line of level error in its log.
func refuse(c call, reason error) {
	text := "criadapter-oci: " + reason.Error()
	fmt.Fprintln(os.Stderr, text)
	if c.log == "" {
		return
	}
	file, err := os.OpenFile(c.log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return
	}
	defer func() { _ = file.Close() }()
	line, _ := json.Marshal(map[string]string{"level": "error", "msg": text, "time": time.Now().Format(time.RFC3339)})
	_, _ = file.Write(append(line, '\n'))
}

// Command criadapter-oci is an OCI runtime for Docker Engine. It edits its input and then becomes the engine's real
// runtime, with the same arguments. For `create` it reads the note that criadapter left for the container (see package
// ocinote) and edits the bundle's config.json. For `exec` it edits the process. Other commands of runc, crun and
// runsc pass unchanged, and unknown commands are refused. A container in a gVisor sandbox is different, see
// sandboxVerbs.
//
// A container without a valid note is refused: either criadapter did not create it, or the machine was restarted since.
// Without the note, the container would lack settings that protect the host.
//
// The single argument --criadapter-version prints this program's own version. --version is the real runtime's, because
// the engine reports it.
//
// Under the name containerd-shim-criadapter-v2 it is a containerd shim. It then becomes runc's shim, which runs this
// program as its runc.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// version is set by the linker.
var version = "unknown"

// versionFlag is the flag for version. No OCI runtime has it.
const versionFlag = "--criadapter-version"

func main() {
	if len(os.Args) == 2 && os.Args[1] == versionFlag {
		fmt.Println(ociName, version)
		return
	}
	if len(os.Args) > 4 && os.Args[1] == waiterFlag {
		os.Exit(wait(os.Args[2:]))
	}
	if len(os.Args) > 4 && os.Args[1] == guardFlag {
		os.Exit(guard(os.Args[2:]))
	}
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
	os.Exit(call.failureCode())
}

// failureCode is the exit code of runc's own failures. For exec it is 255, because other codes are the command's.
func (c *call) failureCode() int {
	if c.verb == "exec" {
		return 255
	}
	return 1
}

// become replaces this program by the real runtime. It returns only with an error. For a container in a sandbox this
// program stays until the runtime has ended, see sandboxVerbs.
func become(c call) error {
	dir, err := ownDir()
	if err != nil {
		return err
	}
	environ := realEnviron(os.Environ(), dir)
	runtime, inSandbox, err := c.runtime(environ)
	if err != nil {
		return err
	}
	if err := checkVersion(runtime, environ, c.ociVersion); err != nil {
		return err
	}
	if run := sandboxVerbs[c.verb]; inSandbox && run != nil {
		code, err := run(c, runtime, environ)
		if err == nil {
			os.Exit(code)
		}
		return err
	}
	if inSandbox && c.verb == "exec" && c.pidFile != "" {
		c.nameProcess()
	}
	argv := append([]string{runtime.Path}, runtime.Args...)
	if err := syscall.Exec(runtime.Path, append(argv, c.args...), environ); err != nil {
		return fmt.Errorf("start the OCI runtime %s: %w", runtime.Path, err)
	}
	return nil
}

// refuse writes the reason to standard error and to the log. The engine reports the last line of level error in the
// log.
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

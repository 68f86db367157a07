// Command ociwrap stands in for runc where a machine (often a virtual one) withholds CAP_SYS_RESOURCE from root. There
// plain runc can start neither a container with a negative oom_score_adj nor a privileged one. The kernel refuses both
// without the capability. ociwrap removes those settings from the bundle and then executes the real runc, so that the
// rest of such containers can be tested. It is installed as "runc" in a directory that comes first on the engine's
// PATH; the real one is the next runc on PATH.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

func main() {
	if err := run(os.Args); err != nil {
		fmt.Fprintln(os.Stderr, "ociwrap:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	runc, err := nextOnPath("runc")
	if err != nil {
		return err
	}
	call := parseCall(args[1:])
	switch call.command {
	case "create", "run":
		path := filepath.Join(call.bundle, "config.json")
		err = rewrite(path, func(data []byte) ([]byte, error) {
			return editSpec(data, func() bool { return knowsTimeNamespace(runc) })
		})
	case "exec":
		if call.process != "" {
			err = rewrite(call.process, editProcess)
		}
	}
	if err != nil {
		return err
	}
	return syscall.Exec(runc, args, os.Environ())
}

// nextOnPath finds the program of that name on PATH that is not the running one.
func nextOnPath(name string) (string, error) {
	self, err := os.Stat("/proc/self/exe")
	if err != nil {
		return "", err
	}
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		path := filepath.Join(dir, name)
		info, err := os.Stat(path)
		if err != nil || info.IsDir() || info.Mode()&0o111 == 0 || os.SameFile(info, self) {
			continue
		}
		return path, nil
	}
	return "", fmt.Errorf("no %s on PATH besides this program", name)
}

// rewrite passes a file's content through edit, and writes the result back with the same mode.
func rewrite(path string, edit func([]byte) ([]byte, error)) error {
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil // runc reports the missing file itself
	}
	if err != nil {
		return err
	}
	edited, err := edit(data)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.WriteFile(path, edited, 0o600)
}

// knowsTimeNamespace asks runc for its features; runc before 1.2 neither lists a time namespace nor creates one.
func knowsTimeNamespace(runc string) bool {
	out, err := exec.Command(runc, "features").Output()
	return err == nil && hasTimeNamespace(out)
}

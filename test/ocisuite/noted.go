package main

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/criadapter/criadapter/internal/ocinote"
)

// notedName is the name of a link to this program, which a suite uses as its OCI runtime. An engine looks for this name
// on PATH. Under this name, the program runs criadapter-oci in front of runc, with an OCI note that changes nothing.
// The variables have the paths of criadapter-oci, the directory of OCI notes, and runc. The link and the directory of
// notes have the same parent directory.
const (
	notedName     = "runc"
	programVar    = "OCISUITE_PROGRAM"
	notesVar      = "OCISUITE_NOTES"
	runcVar       = "OCISUITE_RUNC"
	failedToStart = 127
)

// suiteID matches a container id of the suites: a UUID, or a name in runc's suite. Notes need ids of Docker Engine's
// form, so noted replaces each id by its hash.
var suiteID = regexp.MustCompile(`^([0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|test(_[a-z]+)*|` +
	`ctr|(target|attached)_ctr|(target|in)_userns|no_such_container)$`)

// engineID matches a container id of Docker Engine, which a note takes as it is.
var engineID = regexp.MustCompile(`^[0-9a-f]{64}$`)

// makingVerbs are the commands that make a container. The container's OCI note must exist before they run.
var makingVerbs = []string{"create", "run", "restore"}

// globalValued are runc's global flags that take a value as the next argument.
var globalValued = []string{"--root", "--log", "--log-format", "--criu", "--rootless"}

// printingVerbs are the commands whose output has the container's id.
var printingVerbs = []string{"state", "list", "events"}

// noted becomes criadapter-oci with the suite's arguments, or runs it and returns its exit code.
func noted(args []string) int {
	notes := ocinote.Dir(os.Getenv(notesVar))
	call := []string{"--" + ocinote.DirFlag, string(notes)}
	verb, id, noteID := "", "", ""
	for i, arg := range args {
		if verb == "" && !strings.HasPrefix(arg, "-") && (i == 0 || !slices.Contains(globalValued, args[i-1])) {
			verb = arg
		}
		switch {
		case verb == "" || id != "":
		case engineID.MatchString(arg):
			id, noteID = arg, arg
		case suiteID.MatchString(arg):
			sum := sha256.Sum256([]byte(arg))
			id, noteID = arg, hex.EncodeToString(sum[:])
			arg = noteID
		}
		call = append(call, arg)
	}
	runc := ocinote.Runtime{Path: os.Getenv(runcVar)}
	if notes.SaveRuntime(runc) != nil { // for commands without a container, such as spec
		return failedToStart
	}
	if slices.Contains(makingVerbs, verb) && id != "" && notes.Save(noteID, ocinote.Note{Runtime: runc}) != nil {
		return failedToStart
	}
	if os.Setenv("PATH", pathWithout(filepath.Dir(string(notes)))) != nil {
		return failedToStart
	}
	program := os.Getenv(programVar)
	if !slices.Contains(printingVerbs, verb) {
		_ = syscall.Exec(program, append([]string{program}, call...), os.Environ())
		return failedToStart
	}
	cmd := exec.Command(program, call...)
	cmd.Stdin, cmd.Stderr = os.Stdin, os.Stderr
	err := printWith(cmd, noteID, id)
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		return exit.ExitCode()
	case err != nil:
		return failedToStart
	}
	return 0
}

// pathWithout returns PATH without a directory. The runtime may look for the next runc on PATH.
func pathWithout(dir string) string {
	dirs := slices.DeleteFunc(filepath.SplitList(os.Getenv("PATH")), func(other string) bool { return other == dir })
	return strings.Join(dirs, string(filepath.ListSeparator))
}

// printWith runs a command and prints its output line by line, with id in place of noteID.
func printWith(cmd *exec.Cmd, noteID, id string) error {
	output, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	for lines := bufio.NewReader(output); ; {
		line, err := lines.ReadString('\n')
		_, _ = os.Stdout.WriteString(strings.ReplaceAll(line, noteID, id))
		if err != nil {
			return cmd.Wait()
		}
	}
}

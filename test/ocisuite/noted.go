package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"os/exec"
	"regexp"

	"github.com/criadapter/criadapter/internal/ocinote"
)

// notedName is the name under which this program is the runtime of the suite: criadapter-oci in front of runc, with a
// note that changes nothing. The variables name criadapter-oci, the directory of notes, and runc.
const (
	notedName     = "noted"
	programVar    = "OCISUITE_PROGRAM"
	notesVar      = "OCISUITE_NOTES"
	runcVar       = "OCISUITE_RUNC"
	failedToStart = 127
)

// suiteID is a container id of the suite, a UUID. Notes are for the ids of Docker Engine.
var suiteID = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// noted runs criadapter-oci with the suite's arguments, and returns its exit code.
func noted(args []string) int {
	notes := ocinote.Dir(os.Getenv(notesVar))
	call := []string{"--" + ocinote.DirFlag, string(notes)}
	verb, id, engineID := "", "", ""
	for _, arg := range args {
		if verb == "" {
			verb = arg
		}
		if suiteID.MatchString(arg) {
			sum := sha256.Sum256([]byte(arg))
			id, engineID = arg, hex.EncodeToString(sum[:])
			arg = engineID
		}
		call = append(call, arg)
	}
	if verb == "create" && id != "" {
		if notes.Save(engineID, ocinote.Note{Runtime: ocinote.Runtime{Path: os.Getenv(runcVar)}}) != nil {
			return failedToStart
		}
	}
	cmd := exec.Command(os.Getenv(programVar), call...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	var output bytes.Buffer
	if verb == "state" {
		cmd.Stdout = &output
	}
	err := cmd.Run()
	_, _ = os.Stdout.Write(bytes.ReplaceAll(output.Bytes(), []byte(engineID), []byte(id)))
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		return exit.ExitCode()
	case err != nil:
		return failedToStart
	case verb == "delete" && notes.Remove(engineID) != nil:
		return failedToStart
	}
	return 0
}

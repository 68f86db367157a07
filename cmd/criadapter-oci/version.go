package main

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"github.com/criadapter/criadapter/internal/ocinote"
)

// checkVersion refuses a runtime that does not know a version of the OCI runtime specification: runtimes ignore fields
// that they do not know. The command `features` reports the newest version that a runtime knows. runc has it since 1.1.
func checkVersion(runtime ocinote.Runtime, environ []string, want string) error {
	if want == "" {
		return nil
	}
	cmd := exec.Command(runtime.Path, append(slices.Clone(runtime.Args), "features")...)
	cmd.Env = environ
	var features struct {
		OCIVersionMax string `json:"ociVersionMax"`
	}
	output, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(output, &features)
	}
	if err != nil {
		return fmt.Errorf("what NRI plugins adjust needs a runtime with OCI version %s; %s features: %w", want,
			runtime.Path, err)
	}
	if older(features.OCIVersionMax, want) {
		return fmt.Errorf("what NRI plugins adjust needs a runtime with OCI version %s; %s has %s: install a newer one",
			want, runtime.Path, features.OCIVersionMax)
	}
	return nil
}

// older reports whether a version, such as 1.0.2-dev, is before another one.
func older(version, than string) bool { return slices.Compare(numbers(version), numbers(than)) < 0 }

func numbers(version string) []int {
	version, _, _ = strings.Cut(version, "-")
	var all []int
	for part := range strings.SplitSeq(version, ".") {
		number, _ := strconv.Atoi(part) // a part that is not a number counts as 0
		all = append(all, number)
	}
	return all
}

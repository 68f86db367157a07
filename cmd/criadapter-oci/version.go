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

// checkVersion refuses a runtime that does not know the version want of the OCI runtime specification: runtimes ignore
// unknown fields. The command `features` reports the newest version that a runtime knows. runc has had this command
// since 1.1.
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
		return fmt.Errorf("an adjustment by NRI plugins needs a runtime with OCI version %s; %s features: %w", want,
			runtime.Path, err)
	}
	tooOld, err := older(features.OCIVersionMax, want)
	if err != nil {
		return fmt.Errorf("an adjustment by NRI plugins needs a runtime with OCI version %s; %s features: "+
			"ociVersionMax: %w", want, runtime.Path, err)
	}
	if tooOld {
		return fmt.Errorf("an adjustment by NRI plugins needs a runtime with OCI version %s; %s has %s: "+
			"install a newer one", want, runtime.Path, features.OCIVersionMax)
	}
	return nil
}

// older reports whether a version, such as 1.0.2-dev, is lower than another version. Text that is not a version is an
// error.
func older(version, than string) (bool, error) {
	have, err := numbers(version)
	if err != nil {
		return false, err
	}
	want, err := numbers(than)
	return slices.Compare(have, want) < 0, err
}

// numbers returns the three numbers of a version, without the part after a hyphen or a plus sign.
func numbers(version string) ([]int, error) {
	core, _, _ := strings.Cut(version, "+")
	core, _, _ = strings.Cut(core, "-")
	parts := strings.Split(core, ".")
	all := make([]int, len(parts))
	for i, part := range parts {
		number, err := strconv.Atoi(part)
		if len(parts) != 3 || err != nil {
			return nil, fmt.Errorf("%q is not a version", version)
		}
		all[i] = number
	}
	return all, nil
}

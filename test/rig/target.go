package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/criadapter/criadapter/test/program"
	"github.com/criadapter/criadapter/test/rig/engine"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// target describes a rig: its engine, the kind of pods that its servers make, and how the engine finds the OCI runtime.
type target struct {
	engine.Variant
	mode         string // as rigenv.Env.Mode
	registration string // as rigenv.Env.Registration
}

// namedTargets reads ENGINE, RUNTIME_MODE and REGISTRATION.
func namedTargets() ([]target, error) {
	return targets(os.Getenv("ENGINE"), os.Getenv("RUNTIME_MODE"), os.Getenv("REGISTRATION"))
}

// targets pairs each engine of a comma-separated list with a mode and a registration. Modes and registrations have one
// value for all engines, or a list with one for each.
func targets(engines, modes, registrations string) ([]target, error) {
	variants, err := engine.List(engines)
	if err != nil {
		return nil, err
	}
	n := len(variants)
	mode, err := oneForEach("RUNTIME_MODE", modes, n, rigenv.ModeOCI, rigenv.ModeContainer)
	if err != nil {
		return nil, err
	}
	registration, err := oneForEach("REGISTRATION", registrations, n, rigenv.RegistrationDaemonJSON,
		rigenv.RegistrationShim)
	if err != nil {
		return nil, err
	}
	var all []target
	for i, v := range variants {
		all = append(all, target{v, mode[i], registration[i]})
	}
	return all, nil
}

// oneForEach reads a variable that has one value for all of n engines, or a comma-separated list of one for each. Every
// value is empty or in allowed.
func oneForEach(name, text string, n int, allowed ...string) ([]string, error) {
	list := strings.Split(text, ",")
	if len(list) == 1 {
		list = slices.Repeat(list, n)
	}
	if len(list) != n {
		return nil, fmt.Errorf("%s=%s: want one, or one for each of the %d engines", name, text, n)
	}
	for _, value := range list {
		if value != "" && !slices.Contains(allowed, value) {
			return nil, fmt.Errorf("%s=%s: want %s", name, value, strings.Join(allowed, " or "))
		}
	}
	return list, nil
}

// namedTarget is namedTargets for commands that take one engine.
func namedTarget() (target, error) {
	all, err := namedTargets()
	if err != nil {
		return target{}, err
	}
	if len(all) > 1 {
		return target{}, fmt.Errorf("ENGINE=%s: want one engine", os.Getenv("ENGINE"))
	}
	return all[0], nil
}

// label names the target among others.
func (t target) label() string {
	label := t.Name
	for _, more := range []string{t.mode, t.registration} {
		if more != "" {
			label += ", " + more
		}
	}
	return label
}

// installed says whether the target's engine is the installed one. Tests that use no engine, or the machine's own, run
// on this target only: other targets would repeat their results.
func (t target) installed() bool { return t.Name == engine.Installed }

// firstShim is the first major version of Docker Engine that accepts a shim's name as a runtime.
const firstShim = 23

// canRegister fails if the engine with the program dockerd cannot find the OCI runtime by the target's registration.
func (t target) canRegister(ctx context.Context, dockerd string) error {
	if t.registration != rigenv.RegistrationShim {
		return nil
	}
	said, err := program.Output(ctx, "", nil, dockerd, "--version")
	if err != nil {
		return err
	}
	major, err := majorVersion(said)
	if err != nil {
		return err
	}
	if major < firstShim {
		return fmt.Errorf("REGISTRATION=%s: the engine %s is Docker Engine %d, and only %d and later know a runtime "+
			"by the name of its shim: take another ENGINE, or REGISTRATION=%s", t.registration, t.Name, major,
			firstShim, rigenv.RegistrationDaemonJSON)
	}
	return nil
}

// majorVersion reads "Docker version 20.10.24+dfsg1, build 5d6db84".
func majorVersion(said string) (int, error) {
	var major int
	if _, err := fmt.Sscanf(said, "Docker version %d.", &major); err != nil {
		return 0, fmt.Errorf("dockerd --version said %q: %w", strings.TrimSpace(said), err)
	}
	return major, nil
}

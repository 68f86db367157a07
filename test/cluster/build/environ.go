package build

import (
	"encoding/json"
	"fmt"
)

// VarPrograms is the environment variable with the paths of a cluster's programs, for tests.
const VarPrograms = "CRIADAPTER_CLUSTER_PROGRAMS"

// Environ returns the paths as NAME=value, for the environment of the tests.
func (p Programs) Environ() (string, error) {
	text, err := json.Marshal(p)
	return VarPrograms + "=" + string(text), err
}

// FromEnviron reads the paths with getenv (os.Getenv). It fails if a path is missing.
func FromEnviron(getenv func(string) string) (Programs, error) {
	p, err := fromEnviron(getenv, "make e2e-cluster", programs())
	if err == nil && p.KubeletCore == "" {
		err = fmt.Errorf("%s has no kubelet-core", VarPrograms)
	}
	return p, err
}

// ClusterFromEnviron is FromEnviron without the kubelet core.
func ClusterFromEnviron(getenv func(string) string) (Programs, error) {
	return fromEnviron(getenv, "make load", programs())
}

// WithSpecsFromEnviron is FromEnviron for the programs of WithSpecs, without the kubelet core.
func WithSpecsFromEnviron(getenv func(string) string) (Programs, error) {
	return fromEnviron(getenv, "make conformance", append(programs(), specPrograms(ClusterSuite)...))
}

// fromEnviron reads the paths. It fails if a program of the list has no path. command is the make command that sets
// VarPrograms, for the error.
func fromEnviron(getenv func(string) string, command string, list []program) (Programs, error) {
	var p Programs
	text := getenv(VarPrograms)
	if text == "" {
		return p, fmt.Errorf("%s is not set: run %s", VarPrograms, command)
	}
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return p, fmt.Errorf("%s: %w", VarPrograms, err)
	}
	for _, one := range list {
		if *one.path(&p) == "" {
			return p, fmt.Errorf("%s has no %s", VarPrograms, one.name)
		}
	}
	return p, nil
}

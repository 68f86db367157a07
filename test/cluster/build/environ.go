package build

import (
	"encoding/json"
	"fmt"
)

// VarPrograms is the environment variable in which the tests of a cluster are told where its programs are.
const VarPrograms = "CRIADAPTER_CLUSTER_PROGRAMS"

// Environ returns the paths as NAME=value, for the environment of the tests.
func (p Programs) Environ() (string, error) {
	text, err := json.Marshal(p)
	return VarPrograms + "=" + string(text), err
}

// FromEnviron reads the paths with getenv (os.Getenv). It fails when there are none or one is missing.
func FromEnviron(getenv func(string) string) (Programs, error) {
	var p Programs
	text := getenv(VarPrograms)
	if text == "" {
		return p, fmt.Errorf("%s is not set: run make e2e-cluster", VarPrograms)
	}
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return p, fmt.Errorf("%s: %w", VarPrograms, err)
	}
	for _, one := range programs() {
		if *one.path(&p) == "" {
			return p, fmt.Errorf("%s has no %s", VarPrograms, one.name)
		}
	}
	if p.KubeletCore == "" {
		return p, fmt.Errorf("%s has no kubelet-core", VarPrograms)
	}
	return p, nil
}

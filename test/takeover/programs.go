package takeover

import (
	"encoding/json"
	"fmt"
)

// varPrograms is the environment variable with the paths of the tests' programs.
const varPrograms = "CRIADAPTER_TAKEOVER_PROGRAMS"

// Programs are the paths of the other programs that the tests run. Kubelet is the real kubelet. It may be empty.
type Programs struct {
	CRIDockerd, Kubelet, KubeletCore string
}

// Environ returns the paths as NAME=value, for the environment of the tests.
func (p Programs) Environ() (string, error) {
	text, err := json.Marshal(p)
	return varPrograms + "=" + string(text), err
}

// fromEnviron reads the paths with getenv (os.Getenv).
func fromEnviron(getenv func(string) string) (Programs, error) {
	var p Programs
	text := getenv(varPrograms)
	if text == "" {
		return p, fmt.Errorf("%s is not set: run make e2e-takeover", varPrograms)
	}
	return p, json.Unmarshal([]byte(text), &p)
}

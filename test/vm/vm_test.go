package main

import (
	"maps"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/internal/testutil"
)

// A command and a set exclude each other, and a set has to exist.
func TestTask(t *testing.T) {
	for name, test := range map[string]struct {
		opts options
		good bool
	}{
		"nothing":              {options{}, true},
		"a command":            {options{command: "true"}, true},
		"a set":                {options{set: "power"}, true},
		"a set and a command":  {options{set: "power", command: "true"}, false},
		"an unknown set":       {options{set: "powers"}, false},
		"a set and no command": {options{set: "reboot", command: ""}, true},
	} {
		do, err := test.opts.task()
		testutil.Assert(t, (err == nil) == test.good && (do == nil) != test.good, "%s: %v", name, err)
	}
}

// A boot changes only the phase of a running pod that never restarts: the pod has failed then. All other pods have the
// same phase as before.
func TestPhasesAfterABoot(t *testing.T) {
	before := phases(func(m manifest) v1.PodPhase { return m.first })
	after := phases(func(m manifest) v1.PodPhase { return m.booted })
	want := maps.Clone(before)
	want["task"] = v1.PodFailed
	testutil.Assert(t, maps.Equal(after, want) && before["task"] == v1.PodRunning, "before %v, after %v", before, after)
}

package report

import (
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/criadapter/criadapter/docker"
)

// Group is a set of specs that one cause keeps from passing.
type Group struct {
	// Cause is why, in one sentence.
	Cause string `json:"cause"`
	// Outcome is what happens to the specs: failed or skipped.
	Outcome Outcome `json:"outcome"`
	// BelowAPI is the version of Docker's API since which the cause is gone; empty for a cause on all engines.
	BelowAPI string `json:"belowAPI,omitempty"`
	// WithoutController is the cgroup controller that the machine lacks where the specs do not pass; empty for a cause
	// on all machines.
	WithoutController string `json:"withoutController,omitempty"`
	// Specs are their names.
	Specs []string `json:"specs"`
}

// Expected is the checked-in list.
type Expected []Group

// On returns what is expected on an engine, on a machine with these cgroup controllers.
func (e Expected) On(features docker.Features, controllers []string) Expected {
	return slices.DeleteFunc(slices.Clone(e), func(g Group) bool {
		return g.BelowAPI != "" && features.Supports(g.BelowAPI) || slices.Contains(controllers, g.WithoutController)
	})
}

// Without returns what is expected when those of the named specs do not run.
func (e Expected) Without(names map[string]bool) Expected {
	var left Expected
	for _, group := range e {
		group.Specs = slices.DeleteFunc(slices.Clone(group.Specs), func(name string) bool { return names[name] })
		if len(group.Specs) > 0 {
			left = append(left, group)
		}
	}
	return left
}

// ParseExpected reads the list from YAML. Every group must have a cause, an outcome and specs, and no spec may be
// listed twice.
func ParseExpected(text []byte) (Expected, error) {
	var expected Expected
	if err := yaml.UnmarshalStrict(text, &expected); err != nil {
		return nil, fmt.Errorf("expected specs: %w", err)
	}
	seen := make(map[string]bool)
	for i, group := range expected {
		if strings.TrimSpace(group.Cause) == "" {
			return nil, fmt.Errorf("expected specs: group %d has no cause", i+1)
		}
		if group.Outcome != Failed && group.Outcome != Skipped {
			return nil, fmt.Errorf("expected specs: %q: outcome %q is neither failed nor skipped", group.Cause, group.Outcome)
		}
		if len(group.Specs) == 0 {
			return nil, fmt.Errorf("expected specs: %q: no specs", group.Cause)
		}
		for _, name := range group.Specs {
			if seen[name] {
				return nil, fmt.Errorf("expected specs: %q is listed twice", name)
			}
			seen[name] = true
		}
	}
	return expected, nil
}

package report

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/yaml"

	"github.com/criadapter/criadapter/docker"
)

// Group is a set of specs that one cause keeps from passing.
type Group struct {
	// Cause is why, in one sentence.
	Cause string `json:"cause"`
	// Outcome is what happens to the specs: failed, skipped or left out.
	Outcome Outcome `json:"outcome"`
	// BelowAPI is the version of Docker's API since which the cause is gone; empty for a cause on all engines.
	BelowAPI string `json:"belowAPI,omitempty"`
	// WithoutController is the cgroup controller that the machine lacks where the specs do not pass; empty for a cause
	// on all machines.
	WithoutController string `json:"withoutController,omitempty"`
	// WithoutCapability is the capability that processes of the machine lack where the specs do not pass; empty for a
	// cause on all machines.
	WithoutCapability string `json:"withoutCapability,omitempty"`
	// WithoutAppArmor says that the specs pass where the engine has AppArmor.
	WithoutAppArmor bool `json:"withoutAppArmor,omitempty"`
	// CgroupVersion is the engine's version of cgroups, 1 or 2, with which the specs do not pass; 0 for both.
	CgroupVersion int `json:"cgroupVersion,omitempty"`
	// Kubelet are the minor releases of the kubelet with which the specs do not pass, such as <1.36 or >=1.37; empty
	// for all kubelets.
	Kubelet string `json:"kubelet,omitempty"`
	// Specs are their names.
	Specs []string `json:"specs"`
}

// Expected is the checked-in list.
type Expected []Group

// Machine is what a machine has of what groups name.
type Machine struct {
	// Controllers are the cgroup controllers, and Capabilities the names of root's capabilities.
	Controllers, Capabilities []string
}

// On returns what is expected on an engine, on a machine.
func (e Expected) On(features docker.Features, machine Machine) Expected {
	return slices.DeleteFunc(slices.Clone(e), func(g Group) bool {
		return g.BelowAPI != "" && features.Supports(g.BelowAPI) ||
			g.WithoutAppArmor && features.AppArmor ||
			g.CgroupVersion != 0 && g.CgroupVersion != features.CgroupVersion ||
			slices.Contains(machine.Controllers, g.WithoutController) ||
			slices.Contains(machine.Capabilities, g.WithoutCapability)
	})
}

// WithKubelet returns what is expected with the kubelet of a minor release, such as 1.36. With another kind of kubelet,
// which has none, no group that names releases is left.
func (e Expected) WithKubelet(release string) Expected {
	return slices.DeleteFunc(slices.Clone(e), func(g Group) bool {
		return g.Kubelet != "" && (release == "" || !within(release, g.Kubelet))
	})
}

// within says whether a release is one of a range that parseRange takes.
func within(release, of string) bool {
	below, limit, err := parseRange(of)
	if err != nil {
		return false // ParseExpected has refused it
	}
	return version.MustParseMajorMinor(release).LessThan(limit) == below
}

// parseRange reads the releases below one, <1.36, or from one on, >=1.37.
func parseRange(text string) (below bool, limit *version.Version, err error) {
	release, below := strings.CutPrefix(text, "<")
	if !below {
		var from bool
		if release, from = strings.CutPrefix(text, ">="); !from {
			return false, nil, fmt.Errorf("kubelet %q: want < or >= and a minor release, such as <1.36", text)
		}
	}
	limit, err = version.ParseMajorMinor(release)
	return below, limit, err
}

// LeftOut are the names of the specs that are not to run at all.
func (e Expected) LeftOut() []string {
	var names []string
	for _, group := range e {
		if group.Outcome == LeftOut {
			names = append(names, group.Specs...)
		}
	}
	return names
}

// Without returns what is expected when the named specs do not run.
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
		if !slices.Contains([]Outcome{Failed, Skipped, LeftOut}, group.Outcome) {
			return nil, fmt.Errorf("expected specs: %q: outcome %q is neither failed nor skipped nor left out", group.Cause, group.Outcome)
		}
		if group.CgroupVersion < 0 || group.CgroupVersion > 2 {
			return nil, fmt.Errorf("expected specs: %q: cgroupVersion %d is neither 1 nor 2", group.Cause, group.CgroupVersion)
		}
		if group.Kubelet != "" {
			if _, _, err := parseRange(group.Kubelet); err != nil {
				return nil, fmt.Errorf("expected specs: %q: %w", group.Cause, err)
			}
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

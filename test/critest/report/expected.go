package report

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/yaml"

	"github.com/criadapter/criadapter/docker"
)

// Group is a set of specs that do not pass for the same cause.
type Group struct {
	// Cause is the reason why the specs do not pass, in one sentence.
	Cause string `json:"cause"`
	// Outcome is what happens to the specs: failed, skipped or left out.
	Outcome Outcome `json:"outcome"`
	// BelowAPI limits the group to engines with an older Docker API than this version. Empty means all engines.
	BelowAPI string `json:"belowAPI,omitempty"`
	// WithoutController limits the group to machines that lack this cgroup controller. Empty means all machines.
	WithoutController string `json:"withoutController,omitempty"`
	// WithoutCapability limits the group to machines whose root lacks this capability. Empty means all machines.
	WithoutCapability string `json:"withoutCapability,omitempty"`
	// WithoutDummy limits the group to machines whose kernel lacks network devices of the type dummy.
	WithoutDummy bool `json:"withoutDummy,omitempty"`
	// WithoutAppArmor limits the group to engines without AppArmor.
	WithoutAppArmor bool `json:"withoutAppArmor,omitempty"`
	// WithSELinux limits the group to nodes with SELinux in force.
	WithSELinux bool `json:"withSELinux,omitempty"`
	// WithoutOCIRuntime limits the group to nodes without the OCI runtime criadapter-oci.
	WithoutOCIRuntime bool `json:"withoutOCIRuntime,omitempty"`
	// CgroupVersion limits the group to engines with this version of cgroups, 1 or 2. 0 means both.
	CgroupVersion int `json:"cgroupVersion,omitempty"`
	// Kubelet limits the group to minor releases of the kubelet, such as <1.36 or >=1.37. Empty means all kubelets.
	Kubelet string `json:"kubelet,omitempty"`
	// Suite limits the group to Kubernetes' suite of a single node (NodeSuite) or of a cluster (ClusterSuite). Empty
	// means both.
	Suite string `json:"suite,omitempty"`
	// Specs are their names.
	Specs []string `json:"specs"`
}

// Expected is the checked-in list.
type Expected []Group

// Machine has the properties of a machine that groups depend on.
type Machine struct {
	// Controllers are the cgroup controllers, and Capabilities the names of root's capabilities.
	Controllers, Capabilities []string
	// Dummy says whether the kernel has network devices of the type dummy.
	Dummy bool
	// OCIRuntime says whether the engine has the OCI runtime criadapter-oci.
	OCIRuntime bool
}

// On returns the groups that apply to an engine and a machine.
func (e Expected) On(features docker.Features, machine Machine) Expected {
	return slices.DeleteFunc(slices.Clone(e), func(g Group) bool {
		return g.BelowAPI != "" && features.Supports(g.BelowAPI) ||
			g.WithoutAppArmor && features.AppArmor ||
			g.WithoutDummy && machine.Dummy ||
			g.WithSELinux && !features.SELinux ||
			g.WithoutOCIRuntime && machine.OCIRuntime ||
			g.CgroupVersion != 0 && g.CgroupVersion != features.CgroupVersion ||
			slices.Contains(machine.Controllers, g.WithoutController) ||
			slices.Contains(machine.Capabilities, g.WithoutCapability)
	})
}

// WithKubelet returns the groups that apply to the kubelet of a minor release, such as 1.36. An empty release stands
// for another kind of kubelet, and drops all groups that name releases.
func (e Expected) WithKubelet(release string) Expected {
	return slices.DeleteFunc(slices.Clone(e), func(g Group) bool {
		return g.Kubelet != "" && (release == "" || !inRange(release, g.Kubelet))
	})
}

// inRange says whether a release is in a range, in the form of parseRange.
func inRange(release, of string) bool {
	below, limit, err := parseRange(of)
	if err != nil {
		return false // ParseExpected has refused it
	}
	return version.MustParseMajorMinor(release).LessThan(limit) == below
}

// parseRange reads a range of releases: <1.36 for all below, or >=1.37 for this and all above.
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

// The suites of Kubernetes.
const (
	NodeSuite    = "node"
	ClusterSuite = "cluster"
)

// OfSuite returns the groups that apply to a suite.
func (e Expected) OfSuite(suite string) Expected {
	return slices.DeleteFunc(slices.Clone(e), func(g Group) bool { return g.Suite != "" && g.Suite != suite })
}

// LeftOut returns the names of the specs that are not to run.
func (e Expected) LeftOut() []string {
	var names []string
	for _, group := range e {
		if group.Outcome == LeftOut {
			names = append(names, group.Specs...)
		}
	}
	return names
}

// Without returns the list without the named specs.
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
			return nil, fmt.Errorf("expected specs: %q: outcome %q is neither failed nor skipped nor left out",
				group.Cause, group.Outcome)
		}
		if group.CgroupVersion < 0 || group.CgroupVersion > 2 {
			return nil, fmt.Errorf("expected specs: %q: cgroupVersion %d is neither 1 nor 2", group.Cause,
				group.CgroupVersion)
		}
		if group.Kubelet != "" {
			if _, _, err := parseRange(group.Kubelet); err != nil {
				return nil, fmt.Errorf("expected specs: %q: %w", group.Cause, err)
			}
		}
		if !slices.Contains([]string{"", NodeSuite, ClusterSuite}, group.Suite) {
			return nil, fmt.Errorf("expected specs: %q: suite %q is neither %s nor %s", group.Cause, group.Suite,
				NodeSuite, ClusterSuite)
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

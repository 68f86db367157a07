package main

import (
	"fmt"
	"regexp"
	"runtime"
	"strings"

	"github.com/criadapter/criadapter/test/cluster/build"
)

// set is a named choice of specs by patterns of their names.
type set struct {
	name string
	// what describes the set in the documents.
	what string
	// focus and skip are the patterns.
	focus, skip string
	// alone says that its specs disturb each other.
	alone bool
	// kubelet has the lines of the kubelet's configuration that the set tests.
	kubelet string
	// node says that its specs are from the suite of a single node (test/e2e_node).
	node bool
}

// has says whether the set has a spec of that name.
func (s set) has(name string) bool {
	return regexp.MustCompile(s.focus).MatchString(name) &&
		(s.skip == "" || !regexp.MustCompile(s.skip).MatchString(name))
}

// withoutAdmission are the admission plugins that the suite of a single node leaves out, when it starts an API server.
// Its specs wait neither for service accounts nor for the end of a node's first taint.
func (s set) withoutAdmission() []string {
	if s.node {
		return []string{"ServiceAccount", "TaintNodesByCondition"}
	}
	return nil
}

// suite is the program with the set's specs.
func (s set) suite() build.Suite {
	if s.node {
		return build.NodeSuite
	}
	return build.ClusterSuite
}

// setFast is the default set.
const setFast = "fast"

// excluded is a pattern for specs that no set has: flaky specs, and specs for Windows nodes. Kubernetes' own jobs leave
// out these specs, too.
const excluded = `\[Flaky\]|\[Feature:Windows|\[sig-windows\]`

// sets returns all sets, in the order of the documents' table.
func sets() []set {
	const disturbing = `|\[Serial\]|\[Slow\]|\[Disruptive\]`
	const quick, waiting = quickSpecs + `.*\[NodeConformance\]`, excluded + disturbing + `|Restartable Init`
	return []set{
		{name: setFast, what: "[NodeConformance] specs that say most about a runtime and do not wait long",
			focus: quick, skip: waiting},
		{name: "evented-pleg", what: "the set fast with a kubelet that follows CRI events (KEP-3386)",
			focus: quick, skip: waiting, kubelet: "featureGates: {EventedPLEG: true}\n"},
		{name: "stats-from-cri", what: "the set fast with a kubelet that takes all stats from CRI (KEP-2371)",
			focus: quick, skip: waiting, kubelet: "featureGates: {PodAndContainerStatsFromCRI: true}\n"},
		{name: "node-conformance", what: "all [NodeConformance] specs that may run in parallel",
			focus: `\[NodeConformance\]`, skip: excluded + disturbing},
		{name: "serial", what: "the specs of [NodeConformance], pod-level resources and resizes that must run alone",
			focus: `\[NodeConformance\].*\[Serial\]|\[Serial\].*\[NodeConformance\]|\[sig-node\] (Pod Level ` +
				`Resources \[Serial\]|\[Serial\] Pod InPlace Resize)`,
			skip: excluded, alone: true},
		{name: "slow", what: "sig-node's [Conformance] and [NodeConformance] specs that wait for minutes",
			focus: `\[sig-node\].*(\[Slow\].*Conformance\]|Conformance\].*\[Slow\])`,
			skip:  excluded + `|\[Serial\]|\[Disruptive\]`},
		{name: "conformance", what: "further [Conformance] specs of sig-node",
			focus: `\[sig-node\].*\[Conformance\]`, skip: excluded + disturbing + `|\[NodeConformance\]`},
		{name: "features", what: "sig-node's specs of single features",
			focus: `\[sig-node\].*(Resize|Sidecar|Ephemeral Containers|ImageVolume|UserNamespaces|` +
				`SupplementalGroupsPolicy|Restart|FileKeyRef|RuntimeClass|PodLevelResources|` +
				`Pods Extended|kubelet Clean up)`,
			skip: excluded + disturbing + `|\[NodeConformance\]`},
		{name: "sidecars", what: "how sidecars and preStop hooks end, from the suite of a single node", node: true,
			focus: `Containers Lifecycle .*(sidecar|[Pp]re[Ss]top|restartable init containers have)`,
			skip:  excluded + disturbing},
		{name: "node-suite", what: "all [NodeConformance] specs of the suite of a single node that may run in parallel",
			node: true, kubelet: readOnly, focus: `\[NodeConformance\]`, skip: excluded + disturbing},
		{name: "node-features", what: "the further specs of the suite of a single node", node: true,
			kubelet: readOnly, focus: `.`, skip: excluded + disturbing + `|\[NodeConformance\]`},
		{name: "cli", what: "kubectl specs for one node",
			focus: `\[sig-cli\] Kubectl (client Simple pod|Port forwarding|logs|exec|debug|client Kubectl ` +
				`(run|cp|describe|label))`, skip: excluded + disturbing},
		{name: "storage", what: "volumes of the node itself",
			focus: `\[sig-storage\] (EmptyDir|HostPath|Subpath Atomic|Projected|ConfigMap|Secrets|Downward API|` +
				`In-tree Volumes \[Driver: (hostPath|hostPathSymlink|emptydir)\] \[Testpattern: Inline-volume ` +
				`\(default fs\)\] (subPath|volumes))`,
			skip: excluded + disturbing + `|\[NodeConformance\]`},
	}
}

// readOnly is the kubelet setting that opens the read-only port, where the suite of a single node asks for stats.
const readOnly = "readOnlyPort: 10255\n"

// quickSpecs matches the specs of the fast set. Of specs that differ only in a mode, it matches one.
const quickSpecs = `(Container Lifecycle Hook|Container Runtime blackbox|Containers should|Ephemeral ` +
	`Containers|InitContainer|` +
	`Kubelet when scheduling|KubeletManagedEtcHosts|\] Pods should (be|get|support remote|support ` +
	`retrieving)|PrivilegedPod|` +
	`Security Context|Sysctls|communication: http|should support \((non-root|root),0644|HostPath|Projected combined|` +
	`consumable from pods in volume with mappings \[)`

func setNames() []string {
	var names []string
	for _, s := range sets() {
		names = append(names, s.name)
	}
	return names
}

func setNamed(name string) (set, error) {
	for _, s := range sets() {
		if s.name == name {
			return s, nil
		}
	}
	return set{}, fmt.Errorf("no set is named %q: want one of %s", name, strings.Join(setNames(), ", "))
}

// processes is the number of specs that run at once: three for each CPU, because specs mostly wait, and six at most.
func processes() int { return min(6, 3*runtime.NumCPU()) }

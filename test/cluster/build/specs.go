package build

import (
	"context"
	"io"
)

// Suite is the name of a program with test specs of Kubernetes. Each suite has its own module, so that a change of one
// module rebuilds nothing else.
type Suite string

const (
	// ClusterSuite tests a cluster (test/e2e of Kubernetes).
	ClusterSuite Suite = "e2e.test"
	// NodeSuite tests a single node (test/e2e_node of Kubernetes).
	NodeSuite Suite = "e2e_node.test"
)

// program returns the program of the suite.
func (s Suite) program() program {
	p := program{name: string(s), pkg: kubernetes + "/test/e2e", tools: "e2e", linkerFlags: "-s -w " + stamps(Version),
		isTest: true,
		path:   func(p *Programs) *string { return &p.Specs }}
	if s == NodeSuite {
		p.pkg, p.tools = kubernetes+"/test/e2e_node", "e2e-node"
	}
	return p
}

// specPrograms returns the programs that a suite needs in addition to a cluster. They share the cluster's compiled
// packages, because version and flags are the same.
func specPrograms(suite Suite) []program {
	stamped := "-s -w " + stamps(Version)
	return []program{
		{name: "ginkgo", pkg: "github.com/onsi/ginkgo/v2/ginkgo", linkerFlags: "-s -w",
			tools: "e2e", path: func(p *Programs) *string { return &p.Ginkgo }},
		{name: "agnhost", pkg: kubernetes + "/test/images/agnhost", linkerFlags: stamped,
			tools: "e2e", path: func(p *Programs) *string { return &p.Agnhost }},
		suite.program(),
	}
}

// WithSpecs is All with a suite and the programs that it needs, which take some minutes more the first time. release is
// the kubelet's release, one of Releases. All other programs have Version.
func WithSpecs(ctx context.Context, release string, suite Suite, progress io.Writer) (Programs, error) {
	list, err := withKubelet(append(programs(), specPrograms(suite)...), release)
	if err != nil {
		return Programs{}, err
	}
	return fill(ctx, list, progress)
}

// MissingWithSpecs returns the names of the programs of WithSpecs that the cache does not have.
func MissingWithSpecs(ctx context.Context, release string, suite Suite) ([]string, error) {
	list, err := withKubelet(append(programs(), specPrograms(suite)...), release)
	if err != nil {
		return nil, err
	}
	return missing(ctx, list)
}

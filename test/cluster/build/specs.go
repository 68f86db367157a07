package build

import (
	"context"
	"io"
)

// specPrograms are what Kubernetes' own specs need beside a cluster. They share the cluster's compiled packages, because
// version and flags are the same.
func specPrograms() []program {
	stamped := "-s -w " + stamps(Version)
	return []program{
		{name: "ginkgo", pkg: "github.com/onsi/ginkgo/v2/ginkgo", linkerFlags: "-s -w",
			tools: "e2e", path: func(p *Programs) *string { return &p.Ginkgo }},
		{name: "agnhost", pkg: kubernetes + "/test/images/agnhost", linkerFlags: stamped,
			tools: "e2e", path: func(p *Programs) *string { return &p.Agnhost }},
		{name: "e2e.test", pkg: kubernetes + "/test/e2e", linkerFlags: stamped, isTest: true,
			tools: "e2e", path: func(p *Programs) *string { return &p.Specs }},
	}
}

// WithSpecs is All with Kubernetes' own specs and what they need: some minutes more the first time. The kubelet is that of
// a release, one of Releases, and all else is of Version.
func WithSpecs(ctx context.Context, release string, progress io.Writer) (Programs, error) {
	list, err := withKubelet(append(programs(), specPrograms()...), release)
	if err != nil {
		return Programs{}, err
	}
	return fill(ctx, list, progress)
}

// MissingWithSpecs returns the names of the programs of WithSpecs that the cache does not have.
func MissingWithSpecs(ctx context.Context, release string) ([]string, error) {
	list, err := withKubelet(append(programs(), specPrograms()...), release)
	if err != nil {
		return nil, err
	}
	return missing(ctx, list)
}

package build

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"
)

// The modules of the certification's tool, and of the API server that a spec adds to the cluster.
const (
	hydrophone        = "sigs.k8s.io/hydrophone"
	hydrophoneVersion = "v0.8.0"
	sampleServer      = "k8s.io/sample-apiserver"
	sampleVersion     = "v0.36.3"
)

// certifiedPrograms returns the programs of the certified suite that kubeadmPrograms lacks.
func certifiedPrograms() []program {
	return append(specPrograms(ClusterSuite),
		program{name: "conformance-runner", tools: "e2e", pkg: kubernetes + "/test/conformance/image/go-runner",
			linkerFlags: "-s -w", path: func(p *Programs) *string { return &p.ConformanceRunner }},
		program{name: "sample-apiserver", pkg: sampleServer, version: sampleVersion, linkerFlags: "-s -w",
			path: func(p *Programs) *string { return &p.SampleServer }},
		program{name: "hydrophone", pkg: hydrophone, version: hydrophoneVersion, linkerFlags: "-s -w",
			path: func(p *Programs) *string { return &p.Hydrophone }})
}

// certifiedList is the release's list of the specs that a certified cluster must pass.
const certifiedList = "test/conformance/testdata/conformance.yaml"

// CertifiedSpecs returns the names of the specs on the release's list.
func CertifiedSpecs(ctx context.Context) ([]string, error) {
	dir, err := moduleDir(ctx, "kubernetes", kubernetes)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(dir, certifiedList))
	if err != nil {
		return nil, err
	}
	var list []struct{ Codename string }
	if err := yaml.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("%s: %w", certifiedList, err)
	}
	names := make([]string, len(list))
	for i, spec := range list {
		names[i] = spec.Codename
	}
	return names, nil
}

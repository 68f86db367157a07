package build

import "context"

// Cilium are the paths of Cilium's programs, of the program that fills the templates of its chart, and of its module.
type Cilium struct {
	Agent, Debug, Health, Plugin, Mount, Sysctls, Operator, Helm string
	// Module is the directory of Cilium's module. WithKubeadm leaves it empty, see CiliumModule.
	Module string
}

// The modules of Cilium and of Helm.
const (
	cilium      = "github.com/cilium/cilium"
	helm        = "helm.sh/helm/v3"
	helmVersion = "v3.20.2"
)

// ciliumVersion is the release that test/cluster/tools/cilium/go.mod requires. A test compares the two.
const ciliumVersion = "1.19.6"

// ciliumPrograms returns the programs of Cilium's images, and helm.
func ciliumPrograms() []program {
	list := []program{
		{name: "cilium-agent", pkg: "/daemon", path: func(p *Programs) *string { return &p.Cilium.Agent }},
		{name: "cilium-dbg", pkg: "/cilium-dbg", path: func(p *Programs) *string { return &p.Cilium.Debug }},
		{name: "cilium-health-responder", pkg: "/cilium-health/responder",
			path: func(p *Programs) *string { return &p.Cilium.Health }},
		{name: "cilium-cni", pkg: "/plugins/cilium-cni", path: func(p *Programs) *string { return &p.Cilium.Plugin }},
		{name: "cilium-mount", pkg: "/tools/mount", path: func(p *Programs) *string { return &p.Cilium.Mount }},
		{name: "cilium-sysctlfix", pkg: "/tools/sysctlfix",
			path: func(p *Programs) *string { return &p.Cilium.Sysctls }},
		{name: "cilium-operator-generic", pkg: "/operator", tags: "ipam_provider_operator",
			path: func(p *Programs) *string { return &p.Cilium.Operator }},
	}
	for i := range list {
		list[i].tools, list[i].pkg = "cilium", cilium+list[i].pkg
		list[i].linkerFlags = "-s -w -X " + cilium + "/pkg/version.ciliumVersion=" + ciliumVersion
	}
	return append(list, program{name: "helm", pkg: helm + "/cmd/helm", version: helmVersion, linkerFlags: "-s -w",
		path: func(p *Programs) *string { return &p.Cilium.Helm }})
}

// CiliumModule returns the directory of Cilium's module. The chart and the programs for the kernel are in it.
func CiliumModule(ctx context.Context) (string, error) { return moduleDir(ctx, "cilium", cilium) }

package build

import "context"

// Calico are the paths of Calico's programs and of its module.
type Calico struct {
	Node, MountNS, Plugin, Installer, Controllers, CheckStatus string
	// Portmap and Bandwidth are plugins that Calico's image has beside its own.
	Portmap, Bandwidth string
	// Module is the directory of Calico's module. WithKubeadm leaves it empty, see CalicoModule.
	Module string
}

// calico is Calico's module, and calicoVersion the release that its manifests name.
const (
	calico        = "github.com/projectcalico/calico"
	calicoVersion = "v3.28.5"
	// calicoPluginsVersion is the version of the other plugins.
	calicoPluginsVersion = "v1.9.1"
)

// calicoPrograms returns the programs of Calico's images.
func calicoPrograms() []program {
	node := "-s -w -X " + calico + "/node/pkg/lifecycle/startup.VERSION=" + calicoVersion +
		" -X " + calico + "/node/buildinfo.GitVersion=" + calicoVersion
	main := "-s -w -X main.VERSION=" + calicoVersion
	list := []program{
		{name: "calico-node", pkg: "/node/cmd/calico-node", linkerFlags: node,
			path: func(p *Programs) *string { return &p.Calico.Node }},
		{name: "mountns", pkg: "/node/cmd/mountns", linkerFlags: "-s -w",
			path: func(p *Programs) *string { return &p.Calico.MountNS }},
		{name: "calico", pkg: "/cni-plugin/cmd/calico", linkerFlags: main,
			path: func(p *Programs) *string { return &p.Calico.Plugin }},
		{name: "install", pkg: "/cni-plugin/cmd/install", linkerFlags: main,
			path: func(p *Programs) *string { return &p.Calico.Installer }},
		{name: "kube-controllers", pkg: "/kube-controllers/cmd/kube-controllers", linkerFlags: main,
			path: func(p *Programs) *string { return &p.Calico.Controllers }},
		{name: "check-status", pkg: "/kube-controllers/cmd/check-status", linkerFlags: "-s -w",
			path: func(p *Programs) *string { return &p.Calico.CheckStatus }},
	}
	for i := range list {
		list[i].tools, list[i].pkg = "calico", calico+list[i].pkg
	}
	return append(list,
		program{name: "portmap", pkg: plugins + "/plugins/meta/portmap", version: calicoPluginsVersion,
			linkerFlags: "-s -w", path: func(p *Programs) *string { return &p.Calico.Portmap }},
		program{name: "bandwidth", pkg: plugins + "/plugins/meta/bandwidth", version: calicoPluginsVersion,
			linkerFlags: "-s -w", path: func(p *Programs) *string { return &p.Calico.Bandwidth }})
}

// CalicoModule returns the directory of Calico's module. manifests and node/filesystem are in it.
func CalicoModule(ctx context.Context) (string, error) { return moduleDir(ctx, "calico", calico) }

package build

import (
	"context"
	"io"
	"path/filepath"

	"github.com/criadapter/criadapter/test/gomod"
)

// The modules of the add-ons, and their versions. CoreDNS has the version that kubeadm of Version installs, and
// Flannel's version is in test/cluster/tools/flannel. Flannel's own plugin is not served as a module. The plugin here
// is from the last release of containernetworking/plugins that had a plugin for Flannel.
const (
	coreDNS         = "github.com/coredns/coredns"
	coreDNSVersion  = "v1.14.2"
	flannel         = "github.com/flannel-io/flannel"
	plugins         = "github.com/containernetworking/plugins"
	pluginsVersion  = "v0.9.1"
	metrics         = "sigs.k8s.io/metrics-server"
	metricsVersion  = "v0.9.0"
	router          = "github.com/cloudnativelabs/kube-router/v2"
	routerVersion   = "v2.1.0"
	draExample      = "sigs.k8s.io/dra-example-driver"
	minikube        = "k8s.io/minikube"
	multus          = "gopkg.in/k8snetworkplumbingwg/multus-cni.v4"
	flannelManifest = "Documentation/kube-flannel.yml"
	metricsManifest = "manifests/base"
	multusManifest  = "deployments/multus-daemonset.yml"
)

// minikubeVersion is the version that test/cluster/tools/minikube/go.mod requires. A test compares the two.
const minikubeVersion = "v1.37.0"

// kubeadmPrograms returns the programs that a kubeadm cluster needs in addition to programs.
func kubeadmPrograms() []program {
	const strip = "-s -w"
	stamped := strip + " " + stamps(Version)
	return []program{
		{name: "kubeadm", tools: "kubernetes", pkg: kubernetes + "/cmd/kubeadm", linkerFlags: stamped,
			path: func(p *Programs) *string { return &p.Kubeadm }},
		{name: "kube-proxy", tools: "kubernetes", pkg: kubernetes + "/cmd/kube-proxy", linkerFlags: stamped,
			path: func(p *Programs) *string { return &p.KubeProxy }},
		{name: "coredns", pkg: coreDNS, version: coreDNSVersion, linkerFlags: strip,
			path: func(p *Programs) *string { return &p.CoreDNS }},
		{name: "flanneld", tools: "flannel", pkg: flannel, cgo: true, linkerFlags: strip + " -extldflags -static",
			path: func(p *Programs) *string { return &p.Flanneld }},
		{name: "install-conf", tools: "flannel", pkg: flannel + "/cmd/install_conf", linkerFlags: strip,
			path: func(p *Programs) *string { return &p.FlannelConfig }},
		{name: "flannel", pkg: plugins + "/plugins/meta/flannel", version: pluginsVersion, linkerFlags: strip,
			path: func(p *Programs) *string { return &p.FlannelPlugin }},
		{name: "metrics-server", pkg: metrics + "/cmd/metrics-server", version: metricsVersion, linkerFlags: strip,
			path: func(p *Programs) *string { return &p.MetricsServer }},
		{name: "sample-device-plugin", tools: "e2e", pkg: kubernetes + "/test/images/sample-device-plugin",
			linkerFlags: strip, path: func(p *Programs) *string { return &p.DevicePlugin }},
		{name: "dra-test-driver", tools: "e2e", pkg: kubernetes + "/test/e2e/dra/test-driver", linkerFlags: strip,
			path: func(p *Programs) *string { return &p.DRADriver }},
		{name: "dra-example-kubeletplugin", tools: "dra-example", pkg: draExample + "/cmd/dra-example-kubeletplugin",
			linkerFlags: strip, path: func(p *Programs) *string { return &p.DRAExample }},
		{name: "kube-router", pkg: router + "/cmd/kube-router", version: routerVersion, linkerFlags: strip,
			path: func(p *Programs) *string { return &p.KubeRouter }},
		{name: "multus", tools: "multus", pkg: multus + "/cmd/multus", linkerFlags: strip,
			path: func(p *Programs) *string { return &p.Multus }},
		{name: "thin_entrypoint", tools: "multus", pkg: multus + "/cmd/thin_entrypoint", linkerFlags: strip,
			path: func(p *Programs) *string { return &p.MultusConfig }},
		{name: "install_multus", tools: "multus", pkg: multus + "/cmd/install_multus", linkerFlags: strip,
			path: func(p *Programs) *string { return &p.MultusInstall }},
		{name: "passthru", tools: "multus", pkg: multus + "/cmd/passthru-cni", linkerFlags: strip,
			path: func(p *Programs) *string { return &p.Passthru }},
	}
}

// minikubePrograms returns minikube, stamped with its version.
func minikubePrograms() []program {
	return []program{{name: "minikube", tools: "minikube", pkg: minikube + "/cmd/minikube",
		linkerFlags: "-s -w -X " + minikube + "/pkg/version.version=" + minikubeVersion,
		path:        func(p *Programs) *string { return &p.Minikube }}}
}

// Extras are what a kubeadm cluster can have beyond kubeadm, kube-proxy and its usual add-ons: the certified suite's
// programs, Calico's, Cilium's, and minikube. Each takes some minutes more the first time.
type Extras struct{ Certified, Calico, Cilium, Minikube bool }

// programs returns all programs of a kubeadm cluster with the extras.
func (e Extras) programs() []program {
	list := append(programs(), kubeadmPrograms()...)
	if e.Calico {
		list = append(list, calicoPrograms()...)
	}
	if e.Cilium {
		list = append(list, ciliumPrograms()...)
	}
	if e.Minikube {
		list = append(list, minikubePrograms()...)
	}
	if e.Certified {
		list = append(list, certifiedPrograms()...)
	}
	return list
}

// WithKubeadm is All with the programs of a kubeadm cluster, which take some minutes more the first time.
func WithKubeadm(ctx context.Context, extras Extras, progress io.Writer) (Programs, error) {
	return fill(ctx, extras.programs(), progress)
}

// MissingWithKubeadm returns the names of the programs of WithKubeadm that the cache does not have.
func MissingWithKubeadm(ctx context.Context, extras Extras) ([]string, error) {
	return missing(ctx, extras.programs())
}

// FlannelManifest returns the path of the manifest in Flannel's release.
func FlannelManifest(ctx context.Context) (string, error) {
	dir, err := moduleDir(ctx, "flannel", flannel)
	return filepath.Join(dir, flannelManifest), err
}

// moduleDir returns the directory of a module that a go.mod in test/cluster/tools requires.
func moduleDir(ctx context.Context, tools, path string) (string, error) {
	root, err := gomod.Root(ctx)
	if err != nil {
		return "", err
	}
	module, err := gomod.Download(ctx, program{tools: tools}.toolsDir(root), path)
	return module.Dir, err
}

// MultusManifest returns the path of the manifest in Multus' release.
func MultusManifest(ctx context.Context) (string, error) {
	dir, err := moduleDir(ctx, "multus", multus)
	return filepath.Join(dir, multusManifest), err
}

// MetricsManifest returns the directory of the kustomization in metrics-server's release.
func MetricsManifest(ctx context.Context) (string, error) {
	module, err := gomod.Download(ctx, "", metrics+"@"+metricsVersion)
	return filepath.Join(module.Dir, metricsManifest), err
}

package main

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/criadapter/criadapter/test/cluster/build"
	"github.com/criadapter/criadapter/test/debian"
	"github.com/criadapter/criadapter/test/program"
	"github.com/criadapter/criadapter/test/rig/images"
)

// ciliumBaseKey names the file system of Cilium's image, in the cache.
const ciliumBaseKey = "debian-" + debian.Suite + "-cilium_1"

// prepareCilium adds to the plan what Cilium's image and manifest are made of.
func prepareCilium(ctx context.Context, p *plan) (err error) {
	if p.Programs.Cilium.Module, err = build.CiliumModule(ctx); err != nil {
		return err
	}
	p.CiliumBase, err = base(ctx, ciliumBaseKey, "iptables", "ipset", "iproute2", "kmod", "ca-certificates", "clang-19")
	return err
}

// ciliumImages are the images that Cilium's chart names, keyed repository:tag.
func ciliumImages(ctx context.Context, cacheDir string, all plan) (map[string]v1.Image, error) {
	p := all.Programs.Cilium
	sources, err := filesBelow(filepath.Join(p.Module, "bpf"))
	if err != nil {
		return nil, err
	}
	agent := map[string]string{
		bin + "cilium-agent": p.Agent, bin + "cilium-dbg": p.Debug, bin + "cilium-health-responder": p.Health,
		"usr/bin/cilium-mount": p.Mount, "usr/bin/cilium-sysctlfix": p.Sysctls, "opt/cni/bin/cilium-cni": p.Plugin,
	}
	for inside, path := range sources {
		if !strings.HasPrefix(inside, "tests/") && !strings.HasPrefix(inside, "complexity-tests/") {
			agent["var/lib/cilium/bpf/"+inside] = path
		}
	}
	scripts, err := filesBelow(filepath.Join(p.Module, "images", "cilium"))
	if err != nil {
		return nil, err
	}
	maps.Copy(agent, scripts)
	for _, name := range []string{"install-plugin.sh", "cni-uninstall.sh"} {
		agent[name] = filepath.Join(p.Module, "plugins", "cilium-cni", name)
	}
	return images.Cluster(ctx, cacheDir, []images.Recipe{
		{Name: "cilium:" + addonTag, Base: all.CiliumBase, Files: agent},
		{Name: "cilium-operator-generic:" + addonTag, Files: map[string]string{
			"usr/bin/cilium-operator-generic": p.Operator}},
	})
}

// ciliumValues are the settings of Cilium's chart: one operator, addresses of the ranges that Kubernetes gives to
// nodes, and neither Hubble nor Envoy. The agent is privileged, because Docker 29 refuses to add a capability that the
// test machine lacks (SYS_RESOURCE). The agent looks for its compiler under the name clang. It does not remove the
// configuration of Multus (cni.exclusive).
var ciliumValues = []string{
	"image.override=" + registryAddress + "/cilium:" + addonTag,
	"operator.image.override=" + registryAddress + "/cilium-operator-generic:" + addonTag,
	"operator.replicas=1",
	"ipam.mode=kubernetes",
	"cni.exclusive=false",
	"hubble.enabled=false",
	"envoy.enabled=false",
	"l7Proxy=false",
	"securityContext.privileged=true",
	"extraEnv[0].name=PATH",
	"extraEnv[0].value=/usr/lib/llvm-19/bin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
}

// ciliumManifest is the chart of Cilium's release, with images from the registry.
func ciliumManifest(ctx context.Context, all plan) (string, error) {
	p := all.Programs.Cilium
	return program.Output(ctx, "", []string{"HELM_CACHE_HOME=" + os.TempDir()}, p.Helm, "template", "cilium",
		filepath.Join(p.Module, "install", "kubernetes", "cilium"), "--namespace=kube-system", "--kube-version="+
			build.Version, "--set", strings.Join(ciliumValues, ","))
}

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/criadapter/criadapter/test/cluster/build"
	"github.com/criadapter/criadapter/test/debian"
	"github.com/criadapter/criadapter/test/program"
	"github.com/criadapter/criadapter/test/rig/cache"
	"github.com/criadapter/criadapter/test/rig/images"
)

// baseKey names the file system of images that set up a node's network, in the cache.
const baseKey = "debian-" + debian.Suite + "-network_3"

// networkBase returns a tar archive with a Debian file system that has the tools of the network.
func networkBase(ctx context.Context) (string, error) {
	return base(ctx, baseKey, "iptables", "ipset", "nftables", "iproute2", "conntrack", "kmod", "ca-certificates",
		"runit")
}

// base returns a tar archive with a Debian file system that has the packages. It keeps the archive in the cache.
func base(ctx context.Context, key string, packages ...string) (string, error) {
	dir, err := cache.Fill(ctx, key, func(ctx context.Context, dir string) error {
		root := filepath.Join(dir, "root")
		if err := debian.Bootstrap(ctx, root, runtime.GOARCH, packages...); err != nil {
			return err
		}
		_, err := program.Output(ctx, "", nil, "tar", "--create", "--file", filepath.Join(dir, "base.tar"),
			"--sort=name", "--mtime=@0", "--numeric-owner", "--exclude=./dev/*", "--exclude=./proc/*",
			"--exclude=./var/cache/apt/*", "--exclude=./var/lib/apt/lists/*", "--exclude=./usr/share/doc/*",
			"--exclude=./usr/share/locale/*", "--directory", root, ".")
		return errors.Join(err, os.RemoveAll(root))
	})
	return filepath.Join(dir, "base.tar"), err
}

// bin is where images have their programs.
const bin = "usr/local/bin/"

// recipes are the images of the control plane and the add-ons.
func recipes(p build.Programs, base string) []images.Recipe {
	static := func(name, path string) images.Recipe {
		return images.Recipe{Name: name, Files: map[string]string{bin + name: path}}
	}
	return []images.Recipe{
		static("etcd", p.Etcd),
		static("kube-apiserver", p.APIServer),
		static("kube-controller-manager", p.ControllerManager),
		static("kube-scheduler", p.Scheduler),
		{Name: "kube-proxy", Base: base, Files: map[string]string{bin + "kube-proxy": p.KubeProxy}},
		{Name: "coredns", Files: map[string]string{"coredns": p.CoreDNS}, Entrypoint: []string{"/coredns"}},
		{Name: "flannel", Base: base, Files: map[string]string{"opt/bin/flanneld": p.Flanneld,
			"opt/bin/install-conf": p.FlannelConfig}, Entrypoint: []string{"/opt/bin/flanneld"}},
		{Name: "flannel-cni-plugin", Base: base, Files: map[string]string{"flannel": p.FlannelPlugin}},
		{Name: "metrics-server", Files: map[string]string{"metrics-server": p.MetricsServer},
			Entrypoint: []string{"/metrics-server"}},
		devicePlugin("sample-device-plugin", p),
		{Name: "dra-test-driver", Files: map[string]string{"dra-test-driver": p.DRADriver},
			Entrypoint: []string{"/dra-test-driver"}},
		{Name: "dra-example-driver", Files: map[string]string{"dra-example-kubeletplugin": p.DRAExample},
			Entrypoint: []string{"/dra-example-kubeletplugin"}},
		{Name: "kube-router", Base: base, Files: map[string]string{bin + "kube-router": p.KubeRouter},
			Entrypoint: []string{"kube-router"}},
		{Name: "multus-cni", Files: map[string]string{"usr/src/multus-cni/bin/multus": p.Multus,
			"usr/src/multus-cni/bin/passthru": p.Passthru, "thin_entrypoint": p.MultusConfig,
			"install_multus": p.MultusInstall}},
	}
}

// devicePlugin is Kubernetes' sample device plugin, as an image of that name.
func devicePlugin(name string, p build.Programs) images.Recipe {
	return images.Recipe{Name: name, Files: map[string]string{"sample-device-plugin": p.DevicePlugin},
		Entrypoint: []string{"/sample-device-plugin"}}
}

// registryAddress is where the nodes pull images. Each node knows the host by /etc/hosts.
const (
	registryHost    = "registry.example"
	registryPort    = ":5000"
	registryAddress = registryHost + registryPort
)

// images returns what the registry serves, keyed repository:tag: the images that kubeadm names, the
// add-ons' images, and the test images.
func (p plan) images(ctx context.Context) (map[string]v1.Image, error) {
	dir, err := cache.Dir()
	if err != nil {
		return nil, err
	}
	made, err := images.Cluster(ctx, dir, recipes(p.Programs, p.Base))
	if err != nil {
		return nil, err
	}
	all, err := images.Catalog(ctx, dir)
	if err != nil {
		return nil, err
	}
	names, err := program.Output(ctx, "", nil, p.Programs.Kubeadm, "config", "images", "list",
		"--kubernetes-version", build.Version, "--image-repository", registryAddress)
	if err != nil {
		return nil, err
	}
	for name := range strings.Lines(names) {
		if !strings.HasPrefix(name, registryAddress) {
			continue // a warning
		}
		repository, tag, _ := strings.Cut(path.Base(strings.TrimSpace(name)), ":")
		image := made[repository]
		if repository == "pause" {
			image = made["pause:"+tag]
		}
		if image == nil {
			return nil, fmt.Errorf("kubeadm names the image %s, and there is none", name)
		}
		all[repository+":"+tag] = image
	}
	for _, name := range []string{"flannel", "flannel-cni-plugin", "metrics-server", "sample-device-plugin",
		"dra-test-driver", "dra-example-driver", "kube-router", "multus-cni"} {
		all[name+":"+addonTag] = made[name]
	}
	if network := p.podNetwork(); network.images != nil {
		more, err := network.images(ctx, dir, p)
		if err != nil {
			return nil, err
		}
		maps.Copy(all, more)
	}
	if p.Programs.Specs != "" {
		certified, err := certifiedImages(ctx, dir, p.Programs, p.Base)
		if err != nil {
			return nil, err
		}
		maps.Copy(all, certified)
	}
	return all, nil
}

// conformanceImage is the image with the certified suite, without a registry.
const conformanceImage = "conformance:" + build.Version

// certifiedImages are the image with the certified suite, and the images that its specs pull. Hydrophone wants a shell
// beside the specs.
func certifiedImages(
	ctx context.Context, cacheDir string, p build.Programs, base string,
) (map[string]v1.Image, error) {
	all, err := images.Specs(ctx, cacheDir, p.Agnhost)
	if err != nil {
		return nil, err
	}
	made, err := images.Cluster(ctx, cacheDir, []images.Recipe{
		{Name: conformanceImage, Base: base,
			Files: map[string]string{bin + "ginkgo": p.Ginkgo, bin + "e2e.test": p.Specs, bin + "kubectl": p.Kubectl,
				bin + "kubeconformance": p.ConformanceRunner},
			Entrypoint: []string{"kubeconformance"}},
		{Name: images.SpecsPrefix + "sample-apiserver:1.29.2",
			Files:      map[string]string{"sample-apiserver": p.SampleServer},
			Entrypoint: []string{"/sample-apiserver"}},
		devicePlugin(images.SpecsPrefix+"sample-device-plugin:1.7", p),
	})
	maps.Copy(all, made)
	return all, err
}

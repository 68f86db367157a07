package main

import (
	"context"
	_ "embed"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/criadapter/criadapter/test/cluster/build"
)

// stage is one step of bringing the cluster up.
type stage struct {
	name string
	do   func(context.Context) error
}

// stages returns the stages in their order.
func (k *keeper) stages() []stage {
	list := []stage{
		{"registry: images for kubeadm and the add-ons", k.serveImages},
		{"machines: Debian with systemd, twice", k.boot},
	}
	for _, n := range k.plan.nodes() {
		install := func(ctx context.Context) error { return n.install(ctx, k.machines[n.name], k.plan.networks()) }
		list = append(list, stage{n.name + ": engine, CRI server and kubelet installed", install})
	}
	return append(list,
		stage{"node1: kubeadm init", k.initialise},
		stage{k.plan.podNetwork().title + " applied", k.applyPodNetwork},
		stage{"node2: kubeadm join", k.join},
		stage{"both nodes ready, CoreDNS and kube-proxy run", k.ready},
		stage{"metrics-server answers", k.metrics},
		stage{"API server on 127.0.0.1", k.openAPI},
	)
}

// apiServer is the API server's address.
func (p plan) apiServer() string { return net.JoinHostPort(p.networks()[0].node1, "6443") }

//go:embed kubeadm.yaml
var kubeadmConfig string

// ignored are checks of kubeadm that a machine in namespaces cannot pass: it has neither the files nor the modules of
// the host's kernel, and the host has swap and cgroup v1.
const ignored = "--ignore-preflight-errors=SystemVerification,Swap"

func (k *keeper) initialise(ctx context.Context) error {
	networks := k.plan.networks()
	config := strings.NewReplacer("ADVERTISE", networks[0].node1, "VERSION", build.Version,
		"REGISTRY", registryAddress,
		"PODS", each(networks, func(n network) string { return n.pods }),
		"SERVICES", each(networks, func(n network) string { return n.services })).Replace(kubeadmConfig)
	path := filepath.Join(k.plan.share(), "kubeadm.yaml")
	if err := os.WriteFile(path, []byte(config), 0o644); err != nil {
		return err
	}
	if _, err := k.machines["node1"].Run(ctx, "kubeadm", "init", "--config", "/mnt/kubeadm.yaml", ignored); err != nil {
		return err
	}
	return k.writeKubeconfig(ctx, k.kubeconfig, "https://"+k.plan.apiServer())
}

func (k *keeper) join(ctx context.Context) error {
	line, err := k.machines["node1"].Run(ctx, "sh", "-c", "kubeadm token create --print-join-command 2>/dev/null")
	if err != nil {
		return err
	}
	n := k.plan.nodes()[1]
	_, err = k.machines[n.name].Run(ctx, append(strings.Fields(line), "--node-name", n.name, "--cri-socket", n.socket,
		ignored)...)
	return err
}

// writeKubeconfig writes the administrator's kubeconfig with another address of the API server.
func (k *keeper) writeKubeconfig(ctx context.Context, path, server string) error {
	text, err := k.machines["node1"].Run(ctx, "cat", "/etc/kubernetes/admin.conf")
	if err != nil {
		return err
	}
	text = regexp.MustCompile(`server: .*`).ReplaceAllString(text, "server: "+server)
	return os.WriteFile(path, []byte(text+"\n"), 0o600)
}

// addonTag is the tag of the add-ons' images.
const addonTag = "module"

// metrics applies the kustomization of metrics-server's release.
func (k *keeper) metrics(ctx context.Context) error {
	text, err := k.kubectl(ctx, "kustomize", k.plan.Metrics)
	if err != nil {
		return err
	}
	if err := k.apply(ctx, "metrics", metricsManifest(text)); err != nil {
		return err
	}
	_, err = k.kubectl(ctx, "wait", "--for=condition=Available", "apiservice/v1beta1.metrics.k8s.io", "--timeout=5m")
	return err
}

// metricsManifest takes the image from the registry, and has the server trust the kubelets' self-signed certificates.
func metricsManifest(text string) string {
	text = imageOf(text, "metrics-server")
	return regexp.MustCompile(`( +)- --cert-dir=/tmp`).ReplaceAllString(text, "$0\n$1- --kubelet-insecure-tls")
}

// imageOf replaces a manifest's images whose names match a pattern by the registry's images.
func imageOf(manifest, name string) string {
	return regexp.MustCompile(`image: \S+/(`+name+`):\S+`).
		ReplaceAllString(manifest, "image: "+registryAddress+"/$1:"+addonTag)
}

func (k *keeper) ready(ctx context.Context) error {
	for _, args := range [][]string{
		{"wait", "--for=condition=Ready", "node", "--all"},
		append([]string{"rollout", "status"}, k.plan.podNetwork().daemon...),
		{"rollout", "status", "daemonset/kube-proxy", "--namespace=kube-system"},
		{"rollout", "status", "deployment/coredns", "--namespace=kube-system"},
	} {
		if _, err := k.kubectl(ctx, append(args, "--timeout=5m")...); err != nil {
			pods, _ := k.kubectl(context.WithoutCancel(ctx), "get", "pods", "--all-namespaces") // for the error
			return fmt.Errorf("%w\n%s", err, pods)
		}
	}
	return nil
}

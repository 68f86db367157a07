package main

import (
	"context"
	"os"
	"slices"
	"strings"
)

// usesFlannel says that Flannel connects the pods. Its plugin here is an old one without IPv6 (see package
// test/cluster/build), so kube-router connects the pods of the other families.
func (p plan) usesFlannel() bool { return p.Family == familyIPv4 }

// podNetwork names the add-on that connects the pods.
func (p plan) podNetwork() string {
	if p.usesFlannel() {
		return "Flannel"
	}
	return "kube-router"
}

// podNetworkDaemon names the add-on's DaemonSet, for kubectl.
func (p plan) podNetworkDaemon() []string {
	if p.usesFlannel() {
		return []string{"daemonset/kube-flannel-ds", "--namespace=kube-flannel"}
	}
	return []string{"daemonset/kube-router", "--namespace=kube-system"}
}

// applyPodNetwork applies the add-on that connects the pods.
func (k *keeper) applyPodNetwork(ctx context.Context) error {
	if k.plan.usesFlannel() {
		text, err := os.ReadFile(k.plan.Flannel)
		if err != nil {
			return err
		}
		return k.apply(ctx, "flannel.yaml", flannelManifest(string(text)))
	}
	text, err := addonManifest("kube-router",
		routerSettings{Router: true, IPv4: slices.Contains(k.plan.networks(), ipv4)})
	if err != nil {
		return err
	}
	return k.apply(ctx, "kube-router.yaml", text)
}

// flannelManifest takes the images from the registry. The plugin is an older one (see package test/cluster/build) and
// knows version 0.4.0 of CNI.
func flannelManifest(text string) string {
	text = imageOf(text, "flannel[a-z-]*")
	return strings.ReplaceAll(text, `"cniVersion": "1.0.0"`, `"cniVersion": "0.4.0"`)
}

// routerSettings fill the template of kube-router's manifest. The zero value has the firewall alone.
type routerSettings struct{ Router, IPv4 bool }

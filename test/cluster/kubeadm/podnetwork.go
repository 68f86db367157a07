package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/criadapter/criadapter/test/cluster/build"
)

// The add-ons that can connect the pods.
const (
	networkFlannel = "flannel"
	networkRouter  = "kube-router"
	networkCalico  = "calico"
	networkCilium  = "cilium"
)

// podNetwork is an add-on that connects the pods.
type podNetwork struct {
	// title is its name in texts, and daemon names its DaemonSet for kubectl.
	title  string
	daemon []string
	// families are the families of addresses that it can have here.
	families []string
	// enforces says that the add-on enforces NetworkPolicies. With any other add-on, kube-router's firewall enforces
	// them.
	enforces bool
	// extras are its programs. parts are the cache keys of everything else that it needs.
	extras build.Extras
	parts  []string
	// prepare adds to the plan what images and manifest need, and images returns its images, keyed repository:tag. Both
	// may be nil.
	prepare  func(context.Context, *plan) error
	images   func(ctx context.Context, cacheDir string, p plan) (map[string]v1.Image, error)
	manifest func(context.Context, plan) (string, error)
}

// podNetworks are the add-ons by their names. Flannel's plugin here is an old one without IPv6 (see package
// test/cluster/build). The manifests of Calico and Cilium have IPv6 off.
var podNetworks = map[string]podNetwork{
	networkFlannel: {
		title:    "Flannel",
		daemon:   []string{"daemonset/kube-flannel-ds", "--namespace=kube-flannel"},
		families: []string{familyIPv4},
		manifest: flannelManifest,
	},
	networkRouter: {
		title:    "kube-router",
		daemon:   []string{"daemonset/kube-router", "--namespace=kube-system"},
		families: []string{familyDual, familyIPv6},
		manifest: routerManifest,
	},
	networkCalico: {
		title:    "Calico",
		daemon:   []string{"daemonset/calico-node", "--namespace=kube-system"},
		families: []string{familyIPv4},
		enforces: true,
		extras:   build.Extras{Calico: true},
		prepare:  prepareCalico,
		images:   calicoImages,
		manifest: calicoManifest,
	},
	networkCilium: {
		title:    "Cilium",
		daemon:   []string{"daemonset/cilium", "--namespace=kube-system"},
		families: []string{familyIPv4},
		enforces: true,
		extras:   build.Extras{Cilium: true},
		parts:    []string{ciliumBaseKey},
		prepare:  prepareCilium,
		images:   ciliumImages,
		manifest: ciliumManifest,
	},
}

// podNetworkNames lists the names for texts.
func podNetworkNames() string { return strings.Join(slices.Sorted(maps.Keys(podNetworks)), " or ") }

// podNetworkOf returns an add-on for a family of addresses. The default is Flannel for IPv4 alone, and otherwise
// kube-router.
func podNetworkOf(name, family string) (podNetwork, error) {
	usual := networkFlannel
	if family != familyIPv4 {
		usual = networkRouter
	}
	add, found := podNetworks[cmp.Or(name, usual)]
	if !found {
		return add, fmt.Errorf("-network %q: want %s", name, podNetworkNames())
	}
	if !slices.Contains(add.families, family) {
		return add, fmt.Errorf("-network %s: with it -family must be %s", name, strings.Join(add.families, " or "))
	}
	return add, nil
}

// podNetwork returns the cluster's add-on. The command line has checked that there is one.
func (p plan) podNetwork() podNetwork {
	add, _ := podNetworkOf(p.Network, p.Family)
	return add
}

// applyPodNetwork applies the add-on that connects the pods.
func (k *keeper) applyPodNetwork(ctx context.Context) error {
	text, err := k.plan.podNetwork().manifest(ctx, k.plan)
	if err != nil {
		return err
	}
	return k.apply(ctx, "pod-network", text)
}

// flannelManifest is the manifest of Flannel's release.
func flannelManifest(_ context.Context, p plan) (string, error) {
	text, err := os.ReadFile(p.Flannel)
	return adaptFlannel(string(text)), err
}

// adaptFlannel takes the images from the registry. The plugin is an older one (see package test/cluster/build) and
// supports at most version 0.4.0 of CNI.
func adaptFlannel(text string) string {
	text = imageOf(text, "flannel[a-z-]*")
	return strings.ReplaceAll(text, `"cniVersion": "1.0.0"`, `"cniVersion": "0.4.0"`)
}

// routerManifest is the manifest of kube-router.
func routerManifest(_ context.Context, p plan) (string, error) {
	return addonManifest(networkRouter, routerSettings{Router: true, IPv4: slices.Contains(p.networks(), ipv4)})
}

// routerSettings fill the template of kube-router's manifest. The zero value has the firewall alone.
type routerSettings struct{ Router, IPv4 bool }

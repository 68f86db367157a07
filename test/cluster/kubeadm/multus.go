package main

import (
	"context"
	"fmt"
	"os"
	"regexp"
)

// multusConfig is the file that makes Multus the network of new pods, before the files of other networks.
const multusConfig = "/etc/cni/net.d/00-multus.conf"

// multus gives a pod on each node a second interface by Multus, a plugin that calls the plugins of other networks.
// Multus becomes the network of new pods while it runs, and takes its configuration away when it ends.
func (t *trial) multus(ctx context.Context) error {
	text, err := os.ReadFile(t.plan.Multus)
	if err != nil {
		return err
	}
	if err := t.apply(ctx, "multus", multusManifest(string(text))); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"wait", "--for=condition=Established", "crd/network-attachment-definitions.k8s.cni.cncf.io"},
		{"rollout", "status", "daemonset/kube-multus-ds", "--namespace=kube-system"},
	} {
		if _, err := t.kubectl(ctx, append(args, "--timeout=2m")...); err != nil {
			return err
		}
	}
	if err := t.eachMachine(ctx, "test -e "+multusConfig); err != nil {
		return err
	}
	if err := t.tryAddon(ctx, "multus-user", "multus-user", `
		ip address show dev eth0 | grep 'inet'
		ip address show dev net1 | grep 'inet 10.99.0.'`); err != nil {
		return err
	}
	if err := t.removeAddon(ctx, "multus"); err != nil {
		return err
	}
	return t.eachMachine(ctx, "test ! -e "+multusConfig)
}

// multusManifest takes the image from the registry, and has Multus remove its configuration when it ends.
func multusManifest(text string) string {
	text = imageOf(text, "multus-cni")
	return regexp.MustCompile(`(?m)^( +- )"--multus-conf-file=auto"`).
		ReplaceAllString(text, "$0\n${1}--cleanup-config-on-exit")
}

// eachMachine repeats a script on each node until it succeeds.
func (t *trial) eachMachine(ctx context.Context, script string) error {
	for name, m := range t.machines {
		if err := eventually(ctx, func() error {
			_, err := m.Shell(ctx, script)
			return err
		}); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

package main

import (
	"context"
	"embed"
	"fmt"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/criadapter/criadapter/test/debian"
)

// addons are the manifests of node services (drivers and kube-router) and of network policies. Each driver comes with a
// DaemonSet that uses it on every node.
//
//go:embed addons/*.yaml
var addons embed.FS

// addonManifest returns the manifest of a file in addons, with images from the registry. The file is a template that
// settings fill.
func addonManifest(name string, settings routerSettings) (string, error) {
	parsed, err := template.ParseFS(addons, "addons/"+name+".yaml")
	if err != nil {
		return "", err
	}
	var text strings.Builder
	err = parsed.Execute(&text, settings)
	return strings.NewReplacer("REGISTRY", registryAddress, "TAG", addonTag).Replace(text.String()), err
}

// applyAddon applies the manifest of a file in addons, and waits for DaemonSets, each NAMESPACE/NAME.
func (t *trial) applyAddon(ctx context.Context, name string, daemonSets ...string) error {
	text, err := addonManifest(name, routerSettings{})
	if err != nil {
		return err
	}
	if err := t.apply(ctx, name, text); err != nil {
		return err
	}
	for _, set := range daemonSets {
		namespace, app, _ := strings.Cut(set, "/")
		if _, err := t.kubectl(ctx, "rollout", "status", "daemonset/"+app, "--namespace", namespace,
			"--timeout=2m"); err != nil {
			pods, _ := t.kubectl(context.WithoutCancel(ctx), "describe", "pods", "--namespace", namespace, "--selector",
				"app="+app) // only for the text of the error
			return fmt.Errorf("%w\n%s", err, pods)
		}
	}
	return nil
}

// tryAddon applies an add-on, and runs a script in each pod of the DaemonSet user, which the add-on has in the
// namespace default. drivers are the add-on's other DaemonSets, each NAMESPACE/NAME. tryAddon deletes the pods of user
// first, so that the drivers can still unmount volumes and release claims.
func (t *trial) tryAddon(ctx context.Context, name, user, script string, drivers ...string) error {
	if err := t.applyAddon(ctx, name, append(drivers, "default/"+user)...); err != nil {
		return err
	}
	if err := t.onEach(ctx, user, script); err != nil {
		return err
	}
	if _, err := t.kubectl(ctx, "delete", "daemonset/"+user, "--cascade=foreground", "--timeout=2m"); err != nil {
		return err
	}
	return t.removeAddon(ctx, name)
}

// removeAddon deletes what applyAddon has applied, and waits for the end of its pods.
func (t *trial) removeAddon(ctx context.Context, name string) error {
	_, err := t.kubectl(ctx, "delete", "-f", filepath.Join(t.plan.Dir, name+".yaml"), "--ignore-not-found",
		"--cascade=foreground", "--timeout=2m")
	return err
}

// ociRuntime adds criadapter's OCI runtime to node1's engine, because CDI devices need it there. As docs/oci-runtime.md
// says, it adds one line to daemon.json and reloads the engine. All containers must keep running.
func (t *trial) ociRuntime(ctx context.Context) error {
	m := t.machines["node1"]
	before, err := m.Run(ctx, "docker", "ps", "--quiet")
	if err != nil {
		return err
	}
	if _, err := m.Shell(ctx, debian.UseOCIRuntime); err != nil {
		return err
	}
	if err := eventually(ctx, func() error {
		_, err := m.Shell(ctx, debian.UsesOCIRuntime("crictl"))
		return err
	}); err != nil {
		return err
	}
	after, err := m.Run(ctx, "docker", "ps", "--quiet")
	if err != nil {
		return err
	}
	for id := range strings.FieldsSeq(before) {
		if !strings.Contains(after, id) {
			return fmt.Errorf("container %s ended with the reload", id)
		}
	}
	return nil
}

// devicePlugin gives a container on each node a device by Kubernetes' sample plugin: a mount and a CDI device.
func (t *trial) devicePlugin(ctx context.Context) error {
	return t.tryAddon(ctx, "device-plugin", "device-user", `
		case $CDI_DEVICE in CDI-Dev-[12]) ;; *) exit 1 ;; esac
		test -b /tmp/$CDI_DEVICE
		test -f /tmp/${CDI_DEVICE#CDI-}`, "kube-system/device-plugin")
}

// dra gives a container on each node a device of a claim, by Kubernetes' own test driver for dynamic resource
// allocation. The driver writes a CDI file with the parameters of the claim.
func (t *trial) dra(ctx context.Context) error {
	return t.tryAddon(ctx, "dra", "dra-user", `test "$user_of" = claim`, "kube-system/dra-driver")
}

// draExample gives a container on each node a device of the example driver for dynamic resource allocation. The
// driver's CDI file has what the claim asks for.
func (t *trial) draExample(ctx context.Context) error {
	return t.tryAddon(ctx, "dra-example", "gpu-user", `
		env | grep -x 'GPU_DEVICE_[01]=gpu-[01]'
		env | grep -x 'GPU_DEVICE_[01]_TIMESLICE_INTERVAL=Long'`, "kube-system/dra-example")
}

// csi gives a container on each node a volume of a driver that mounts from within its own container. Nothing stays
// mounted.
func (t *trial) csi(ctx context.Context) error {
	if err := t.tryAddon(ctx, "csi", "csi-user", `
		grep '^tmpfs.criadapter.example /data tmpfs ' /proc/mounts
		echo data > /data/file`, "kube-system/csi-driver"); err != nil {
		return err
	}
	return t.eachMachine(ctx, `not grep tmpfs.criadapter.example /proc/mounts`)
}

// networkPolicy has a policy keep the clients from the web servers, and another one let them in again. kube-router's
// firewall makes the rules, unless the pods' network does.
func (t *trial) networkPolicy(ctx context.Context) error {
	enforces := t.plan.podNetwork().enforces
	if !enforces {
		if err := t.applyAddon(ctx, networkRouter, "kube-system/kube-router"); err != nil {
			return err
		}
	}
	const reach = "timeout 3 wget -q -O - http://web/"
	if err := t.onEach(ctx, "client", reach); err != nil {
		return err
	}
	for _, one := range []struct{ policy, script string }{
		{"deny", "for i in 1 2 3; do if " + reach + "; then exit 1; fi; done"}, {"allow", reach},
	} {
		if err := t.applyAddon(ctx, one.policy); err != nil {
			return err
		}
		if err := eventually(ctx, func() error { return t.onEach(ctx, "client", one.script) }); err != nil {
			return fmt.Errorf("with the policy %s: %w", one.policy, err)
		}
	}
	for _, policy := range []string{"allow", "deny"} {
		if err := t.removeAddon(ctx, policy); err != nil {
			return err
		}
	}
	if enforces {
		return nil
	}
	return t.removeAddon(ctx, networkRouter)
}

// onEach runs a script in the pods of a DaemonSet of the namespace default. The script must succeed on both nodes.
func (t *trial) onEach(ctx context.Context, app, script string) error {
	_, err := t.each(ctx, "app="+app, "sh", "-ec", script)
	return err
}

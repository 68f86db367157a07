package machine

import (
	"context"
	"path/filepath"
	"runtime"

	"github.com/criadapter/criadapter/test/debian"
	"github.com/criadapter/criadapter/test/rig/cache"
)

// RootKey names the result of Root in the cache.
const RootKey = "debian-" + debian.Suite + "-systemd-docker-rpm-kubernetes_2"

// Root returns a directory for Options.Root. Its file system has systemd, Docker Engine, rpm and the programs that
// kubelets, kubeadm and minikube call. The first call downloads Debian's packages, which takes a minute.
func Root(ctx context.Context) (string, error) {
	return cache.Fill(ctx, RootKey, func(ctx context.Context, dir string) error {
		return debian.Bootstrap(ctx, filepath.Join(dir, "root"), runtime.GOARCH, "systemd", "systemd-sysv", "dbus",
			"procps", "docker.io", "iptables", "iproute2", "rpm", "conntrack", "ethtool", "kmod", "mount", "nftables",
			"sudo")
	})
}

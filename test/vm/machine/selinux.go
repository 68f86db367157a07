package machine

import (
	"context"
	_ "embed"
	"path/filepath"

	"github.com/criadapter/criadapter/test/debian"
)

// selinuxPackages are Debian's policy, and the tools that make modules for it.
func selinuxPackages() []string {
	return []string{"selinux-policy-default", "selinux-policy-dev", "selinux-policy-src", "policycoreutils", "make",
		"zstd"}
}

// engineModule is a module of the policy that lets the engine start containers.
//
//go:embed engine.cil
var engineModule string

// enforce loads the policy module container and engineModule. Debian has the module container only in the source of its
// policy, not in the package. enforce also makes the directories that programs would make without the right label, and
// labels all files. SELinux is in force from the first boot.
func enforce(ctx context.Context, root string) error {
	if err := writeFile(filepath.Join(root, "tmp/module/engine.cil"), engineModule); err != nil {
		return err
	}
	return debian.Inside(ctx, root, `
		cd /tmp/module
		tar --zstd --extract --file /usr/src/selinux-policy-src.tar.zst
		sources=selinux-policy-src/policy/modules/services
		cp $sources/container.te .
		grep -v container_engine_exec_t $sources/container.fc > container.fc
		make --file /usr/share/selinux/devel/Makefile container.pp
		semodule --noreload --store default --install container.pp --install engine.cil
		cd /
		rm -r /tmp/module
		sed -i 's/^SELINUX=.*/SELINUX=enforcing/' /etc/selinux/config
		mkdir -p /var/lib/docker/overlay2 /var/lib/containerd /var/lib/cni /var/lib/kubelet/pods /var/log/pods
		setfiles /etc/selinux/default/contexts/files/file_contexts /`)
}

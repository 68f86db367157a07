package machine

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/criadapter/criadapter/test/program"
)

// settings are the files of a machine that Debian's packages do not bring.
var settings = map[string]string{
	"etc/fstab":       "/dev/vda / ext4 errors=remount-ro 0 1\n",
	"etc/hostname":    "node\n",
	"etc/hosts":       "127.0.0.1 localhost node\n",
	"etc/resolv.conf": "nameserver 10.0.2.3\n",
	// QEMU's own network has these addresses.
	"etc/systemd/network/10-node.network": "[Match]\nDriver=virtio_net\n\n[Network]\nAddress=" + Address + "/24\n" +
		"Gateway=10.0.2.2\nLinkLocalAddressing=no\n",
	// PAM sessions and their services would take seconds here.
	"etc/ssh/sshd_config.d/machine.conf": "UsePAM no\nUseDNS no\nMaxSessions 100\nMaxStartups 100\n",
	"etc/systemd/system.conf.d/machine.conf": "[Manager]\nDefaultTimeoutStartSec=15min\n" +
		"DefaultDeviceTimeoutSec=15min\n",
	// The journal outlives a reboot.
	"etc/systemd/journald.conf.d/machine.conf": "[Journal]\nStorage=persistent\nSyncIntervalSec=10s\n",
}

// idle are units that would start work at any time. They are masked.
var idle = []string{"apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "e2scrub_all.timer",
	"e2scrub_reap.service", "fstrim.timer", "logrotate.timer"}

// configure writes settings to a root file system. It makes a key that the machine accepts, and leaves the key in dir.
func configure(ctx context.Context, root, dir string) error {
	for name, text := range settings {
		if err := writeFile(filepath.Join(root, name), text); err != nil {
			return err
		}
	}
	units := filepath.Join(root, "etc/systemd/system")
	for _, unit := range idle {
		if err := os.Symlink("/dev/null", filepath.Join(units, unit)); err != nil && !os.IsExist(err) {
			return err
		}
	}
	wants := filepath.Join(units, "multi-user.target.wants/systemd-networkd.service")
	if err := os.Symlink("/lib/systemd/system/systemd-networkd.service", wants); err != nil {
		return err
	}
	return exchangeKeys(ctx, root, dir)
}

// exchangeKeys makes a key in dir that the machine accepts, and writes the machine's own key to dir.
func exchangeKeys(ctx context.Context, root, dir string) error {
	key := filepath.Join(dir, keyFile)
	_, err := program.Output(ctx, "", nil, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", key)
	if err != nil {
		return err
	}
	public, err := os.ReadFile(key + ".pub")
	if err != nil {
		return err
	}
	if err := writeFile(filepath.Join(root, "root/.ssh/authorized_keys"), string(public)); err != nil {
		return err
	}
	host, err := os.ReadFile(filepath.Join(root, "etc/ssh/ssh_host_ed25519_key.pub"))
	if err != nil {
		return err
	}
	known := fmt.Sprintf("%s %s\n", hostName, strings.TrimSpace(string(host)))
	return writeFile(filepath.Join(dir, knownHostsFile), known)
}

// writeFile writes a file that only its owner can write, and makes its directory.
func writeFile(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o644)
}

#!/bin/bash
# Starts systemd on a copy of this machine's root: boot.sh DIRECTORY PROGRAM UNITS. It runs in new mount, PID, network,
# IPC, UTS and cgroup namespaces, and in a cgroup of its own. Its writes go to a layer on a tmpfs.
set -eu
dir=$1 program=$2 units=$3 root=$1/root
mount --make-rprivate /
mkdir -p "$dir/layer" "$root"
mount -t tmpfs tmpfs "$dir/layer"
mkdir "$dir/layer/upper" "$dir/layer/work"
mount -t overlay overlay -o "lowerdir=/,upperdir=$dir/layer/upper,workdir=$dir/layer/work" "$root"
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
for part in run tmp dev; do mount -t tmpfs tmpfs "$root/$part"; done
mkdir "$root/dev/pts" "$root/dev/shm"
for device in null zero full random urandom tty; do
	touch "$root/dev/$device"
	mount --bind "/dev/$device" "$root/dev/$device"
done
touch "$root/dev/kmsg" # systemd's own log, which the test shows when it fails
if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
	mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
else
	mount -t tmpfs tmpfs "$root/sys/fs/cgroup"
	mkdir "$root/sys/fs/cgroup/systemd"
	mount -t cgroup -o none,name=systemd cgroup "$root/sys/fs/cgroup/systemd"
fi
rm -rf "$root"/etc/systemd/system/* "$root"/{etc,lib,usr/lib}/systemd/system/{docker,containerd}.{service,socket} "$root"/etc/criadapter
echo 0123456789abcdef0123456789abcdef >"$root/etc/machine-id"
install -m 755 "$program" "$root/usr/bin/criadapter"
install -m 644 "$units"/criadapter.service "$units"/criadapter.socket "$root/etc/systemd/system/"
mkdir -p "$root/etc/default"
echo CRIADAPTER_NETWORK_PLUGIN=bridge >"$root/etc/default/criadapter"
cat >"$root/etc/systemd/system/try.target" <<-END
	[Unit]
	DefaultDependencies=no
	Requires=systemd-journald.socket criadapter.service
END
export container=test
exec chroot "$root" /lib/systemd/systemd --system --unit=try.target --log-target=kmsg --show-status=no

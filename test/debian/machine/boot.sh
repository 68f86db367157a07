# Makes the machine's mounts and becomes its systemd. Runs as the first process of new namespaces. Its environment has
# ROOT (the root file system, which stays unchanged), DIR (for the machine's writes), SHARE (mounted at /mnt), ADDRESS
# (of a bridge, or empty) and CONTROLLERS (of cgroup v1, empty for cgroup v2).
set -eu
mount --make-rprivate /
mount -t overlay machine -o "lowerdir=$ROOT,upperdir=$DIR/upper,workdir=$DIR/work" "$DIR/root"
cd "$DIR/root"
mount -t proc proc proc
mount -t sysfs sysfs sys
mount --rbind /dev dev
mount -t tmpfs tmpfs run
mount -t tmpfs tmpfs tmp
mount --bind "$SHARE" mnt
for engine in docker containerd; do # their layers cannot be on an overlay
	mkdir -p "var/lib/$engine"
	mount --bind "$DIR/$engine" "var/lib/$engine"
done
if [ -n "$CONTROLLERS" ]; then
	mount -t tmpfs cgroup sys/fs/cgroup
	for controller in $CONTROLLERS; do
		mkdir "sys/fs/cgroup/$controller"
		case $controller in
		systemd) mount -t cgroup -o none,name=systemd cgroup "sys/fs/cgroup/$controller" ;;
		*) mount -t cgroup -o "$controller" cgroup "sys/fs/cgroup/$controller" ;;
		esac
	done
else
	mount -t cgroup2 cgroup2 sys/fs/cgroup
fi
# A process that joins a mount namespace gets its root. With chroot, commands in containers would run in the host's files.
mkdir -p old
pivot_root . old
umount --lazy /old
rmdir /old
cd /
mount --make-rshared /
ip link set lo up
if [ -n "$ADDRESS" ]; then
	ip link add node0 type bridge
	ip address add "$ADDRESS" dev node0
	ip link set node0 up
fi
exec env -i container=criadapter-machine PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
	/lib/systemd/systemd --system --log-target=journal

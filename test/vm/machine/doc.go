// Package machine emulates a computer with Debian: its own kernel, systemd, cgroup v2, AppArmor and Docker Engine, as
// on an ordinary node. QEMU emulates the processor, so a host needs no virtualization, and everything takes some 15
// times as long as outside.
//
// An image is made once and kept in the cache. It has a disk, and the memory of a machine that has booted from that
// disk, so a new machine resumes within seconds. Every machine writes to its own disk on top of the image's disk, and
// leaves nothing. A machine has no network except a port on the host's 127.0.0.1, which leads to its sshd.
package machine

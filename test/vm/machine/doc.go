// Package machine emulates a computer with Debian: its own kernel, systemd, cgroup v2, AppArmor and Docker Engine, as
// people's nodes have them. QEMU emulates the processor, so a host needs no virtualization, and everything takes some
// 15 times as long as outside.
//
// An image is made once and kept in the cache: a disk, and the memory of a machine that has booted from it, so that a
// new machine goes on from there within seconds. Every machine writes to a disk of its own on top of the image's, and
// leaves nothing. It has no network but a port on the host's 127.0.0.1, which leads to its sshd.
package machine

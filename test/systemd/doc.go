// Package systemd tries the units of contrib/systemd under a real systemd: as the first process of a PID namespace, on a
// root that is this machine's with a layer on top, in a cgroup of its own.
package systemd

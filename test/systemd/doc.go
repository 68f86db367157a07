// Package systemd tries the units of contrib/systemd under a real systemd. That is the first process of a PID
// namespace, in a cgroup of its own, on this machine's root with a layer on top.
package systemd

// Package systemd tests the units of contrib/systemd under a real systemd. This systemd is the first process of a PID
// namespace, in its own cgroup. Its root is this machine's root with a writable layer on top.
package systemd

// Package nodeshutdown ends pods in order before the machine goes down (pkg/kubelet/nodeshutdown). systemd-logind
// announces a shutdown over D-Bus. It delays the shutdown while a process holds an inhibitor, at most for logind's
// InhibitDelayMaxSec. Manager holds an inhibitor. On the signal it ends pods in groups of rising priority, each group
// in its part of the time. Without grace periods by priority there are two groups, and critical pods are the second.
// Then Manager releases the inhibitor. Meanwhile the node is not ready and admits no pods. See
// https://systemd.io/INHIBITOR_LOCKS and the interface org.freedesktop.login1.
package nodeshutdown

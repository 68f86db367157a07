// Package nodeshutdown ends pods in order before the machine goes down (pkg/kubelet/nodeshutdown). systemd-logind
// announces a shutdown over D-Bus, and delays it while a process holds an inhibitor, up to its InhibitDelayMaxSec.
// Manager holds an inhibitor. On the signal it ends the pods without a critical priority, then the critical ones, each
// group in its part of the time. Then it releases the inhibitor. Meanwhile the node is not ready and admits no pods.
// See https://systemd.io/INHIBITOR_LOCKS and the interface org.freedesktop.login1.
package nodeshutdown

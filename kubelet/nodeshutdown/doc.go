// Package nodeshutdown ends pods in order before the machine goes down (pkg/kubelet/nodeshutdown). systemd-logind tells
// of a shutdown over D-Bus and delays it as long as somebody holds an inhibitor, up to its InhibitDelayMaxSec: Manager
// holds one, and when the signal comes ends first the pods without a critical priority, then those with one, each within
// its share of the time, and lets go. Meanwhile the node is not ready and takes no pods. See
// https://systemd.io/INHIBITOR_LOCKS and the interface org.freedesktop.login1.
package nodeshutdown

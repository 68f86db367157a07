// Package check implements the command `kubelet-core check`. It reads facts about a node without changing the node,
// judges them without side effects, and returns a report. Each problem has a remedy.
package check

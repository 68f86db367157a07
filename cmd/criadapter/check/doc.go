// Package check implements the command `criadapter check`. It reads facts about a node, judges them without side
// effects, and returns a report. Each finding has a remedy. It changes nothing on the node.
package check

// Package check implements the command `criadapter check`. It reads facts about a node, judges them without side
// effects, and writes a Report as text or JSON. Each finding has a remedy. It changes nothing on the node.
package check

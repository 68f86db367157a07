// Package check is the doctor: it reads what is known of a node into facts, says purely what of them is right and what is
// not, each with what to do next, and writes a Report as text or JSON. It changes nothing on the node.
package check

//go:build tools

// Package tools pins the modules that the node's specs are built from. Their program is a test of the package imported
// here, and a test itself cannot be imported.
package tools

import (
	_ "k8s.io/kubernetes/test/e2e_node"
	_ "k8s.io/system-validators/validators" // the tests of e2e_node import it
)

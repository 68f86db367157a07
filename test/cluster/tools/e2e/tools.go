//go:build tools

// Package tools pins what the specs are made of: their program is a test file of this package, which cannot be
// imported.
package tools

import _ "k8s.io/kubernetes/test/e2e"

// Package debian has what tests on a Debian machine share, whether the machine is a set of namespaces (test/packages)
// or an emulated computer (test/vm). These are a root file system of Debian's packages, a release of the tree, and what
// a node has beside it.
package debian

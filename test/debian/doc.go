// Package debian has what tests on a Debian machine share, whether the machine is a set of namespaces (test/packages)
// or an emulated computer (test/vm). The package makes a root file system of Debian's packages, and a release of the
// tree. It also makes the CNI plugins, crictl, the image and the manifests of a node.
package debian

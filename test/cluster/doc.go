// Package cluster runs a real Kubernetes control plane and nodes on criadapter: once with the real kubelet of the same
// release, once with the kubelet core. Each step of the table in steps_test.go is a test of its own for both. A
// table of the results is printed last. `make e2e-cluster` builds what it needs and runs it.
package cluster

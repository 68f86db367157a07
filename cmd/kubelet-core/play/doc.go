// Package play runs the pods of some files for as long as its process does, as podman kube play runs them on Podman: it
// takes the documents apart, writes what is left as manifests for a kubelet core of its own, shows what becomes of them,
// and in the end leaves nothing. Its counterpart is pkg/domain/infra/abi/play.go of Podman; docs/play.md compares.
package play

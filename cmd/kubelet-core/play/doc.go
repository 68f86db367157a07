// Package play runs the pods of some files while its process runs, like podman kube play. It reads the documents and
// writes manifests for its own kubelet core. It shows the pods' states, and removes everything at the end. Its
// counterpart is pkg/domain/infra/abi/play.go of Podman. docs/play.md compares the two.
package play

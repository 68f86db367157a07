// Package housekeeping removes what no pod needs (HandlePodCleanups of pkg/kubelet/kubelet_pods.go, and the garbage
// collectors of pkg/kubelet/kubelet.go). Cleaner ends running pods that no source lists, and removes volumes and
// cgroups of pods that are gone. Collectors remove dead containers and unused images, and rotate logs.
package housekeeping

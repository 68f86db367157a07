// Package housekeeping finds what a node has and nobody wants (HandlePodCleanups of pkg/kubelet/kubelet_pods.go, and
// the garbage collectors that pkg/kubelet/kubelet.go starts): Cleaner ends pods that run and that no source lists, and
// removes volumes and cgroups of pods that are gone; Collectors remove dead containers and unused images, and rotate
// logs.
package housekeeping

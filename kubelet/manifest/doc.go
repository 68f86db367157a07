// Package manifest reads manifests: YAML or JSON documents that are pods, or config maps, secrets, volumes and claims
// of pods. It corresponds to common.go of pkg/kubelet/config, with the defaults and validation of pkg/apis/core. A
// field that the kubelet core does not support is refused by name. No function reads files or keeps state. SetDefaults
// and Static change their pod.
package manifest

// Package manifest reads manifests (common.go of pkg/kubelet/config, with the defaults and validation of pkg/apis/core):
// files with one or more YAML or JSON documents that are pods, config maps or secrets. It fills in defaults and judges
// what it read; a field that the kubelet core cannot honour is refused by its name. All of it is pure.
package manifest

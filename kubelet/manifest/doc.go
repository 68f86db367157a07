// Package manifest reads manifests: files with one or more YAML or JSON documents that are pods, config maps or
// secrets. It corresponds to common.go of pkg/kubelet/config, with the defaults and validation of pkg/apis/core. It
// sets defaults and validates. A field that the kubelet core does not support is refused by name. All functions are
// pure.
package manifest

// Package manifest reads manifests: files with one or more YAML or JSON documents that are pods, config maps or secrets. It
// fills in defaults and judges what it read; a field that the kubelet core cannot honour is refused by its name. All of it
// is pure.
package manifest

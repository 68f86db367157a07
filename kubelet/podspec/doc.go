// Package podspec turns a pod into the CRI's words: a sandbox configuration and one configuration per container, with
// environment, mounts, the managed hosts file, DNS, security context, resources and oom scores. It starts nothing; what
// it writes to disk is the pod's own files below the kubelet's root.
package podspec

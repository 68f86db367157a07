// Package kubelet runs the kubelet core against criadapter on the rig: pods from a folder of manifests, with real
// containers. Every test has a criadapter, a kubelet-core and a node name of its own, and leaves nothing behind; they run
// beside each other.
package kubelet

// Package kubelet runs the kubelet core on the rig: pods from a directory of manifests, with real containers, on
// criadapter or, as proof that the core speaks CRI only, on Debian's containerd. Every test has a server, a
// kubelet-core and a node name of its own, and leaves nothing behind; they run beside each other. Which tests end
// otherwise on containerd, and why, is in differences.yaml; command differences compares.
package kubelet

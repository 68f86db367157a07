// Package kubelet runs the kubelet core on the rig, with real containers of pods from a directory of manifests. The
// runtime is criadapter, or Debian's containerd, which proves that the core speaks only CRI. Each test has a server, a
// kubelet-core and a node name of its own, and leaves nothing behind. Tests run beside each other. differences.yaml
// lists the tests with another outcome on containerd, each with the cause. Command differences compares the runtimes.
package kubelet

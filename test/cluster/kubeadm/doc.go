// Command kubeadm makes a cluster of two nodes with kubeadm. The cluster stays up for use by hand, or the command tests
// it step by step (-check). Each node is a Debian machine in namespaces of its own (package test/debian/machine), with
// systemd, an engine and criadapter's package. kubeadm makes the control plane, kube-proxy and CoreDNS. The rest comes
// from Flannel's and metrics-server's own manifests. All images are built from modules, and come from a registry of the
// cluster. `make cluster` runs it.
//
// A keeper process owns the machines, the registry and the network between them. It lives in a network namespace of its
// own and keeps running when the command has ended. `make cluster DOWN=1` ends it. The API server is reached on a port
// of 127.0.0.1, which the keeper forwards.
package main

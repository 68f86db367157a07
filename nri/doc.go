// Package nri serves the Node Resource Interface (NRI, github.com/containerd/nri): plugins of the node follow pods and
// containers, and adjust new containers. The interface's own library speaks to the plugins, orders them, and merges and
// validates their requests. This package describes pods and containers for the library. It turns the merged requests
// into limits of CRI and into a note for the OCI runtime (package ocinote).
//
// The engine gives a container its id, and plugins know containers by id. So plugins are asked after the engine has
// created the container. The note carries their adjustments to the OCI runtime. If a container cannot have a note,
// plugins can change only its limits.
package nri

// Package nri serves the Node Resource Interface (NRI, github.com/containerd/nri): plugins of the node follow pods and
// containers, and adjust new containers. The interface's own library speaks to the plugins, orders them, and merges and
// validates what they ask for. This package describes pods and containers for the library. It turns the outcome into
// limits of CRI and into a note for the OCI runtime (package ocinote).
//
// The engine gives a container its id, and plugins know containers by id. So they are asked after the engine has the
// container, and the note carries to the OCI runtime what they adjust. Plugins can change only the limits of a
// container that cannot have a note.
package nri

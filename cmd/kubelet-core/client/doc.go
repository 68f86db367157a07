// Package client has the commands of kubelet-core that read from a running one: kubectl's get pods, describe pod, logs
// and exec over its read-only endpoint on loopback. It changes nothing, except that Exec starts a command in a
// container.
package client

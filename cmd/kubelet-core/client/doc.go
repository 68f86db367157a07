// Package client has the commands of kubelet-core that read from a running one: kubectl's get pods, describe pod, logs
// and exec over its read-only endpoint on loopback. It only reads; the one thing that it starts is Exec's command.
package client

// Package podstats says what pods use of the node's memory and disk (the part of pkg/kubelet/stats that eviction needs):
// memory and writable layers as the runtime reports them, logs and volumes as the file system has them. Volumes are
// counted by a walk that is bounded in time and that nobody has to wait for: containers decide how much is in them.
package podstats

// Package podstats measures the memory and disk usage of pods (the part of pkg/kubelet/stats that eviction needs). The
// runtime reports memory and writable layers. Logs and volumes are measured in the file system. Volumes may be large,
// so they are measured in the background, with a time limit.
package podstats

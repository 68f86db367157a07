// Package volume makes the volumes of pods on the host: emptyDir, hostPath, configMap, secret. The kubelet core calls
// Manager.Mount before a pod's containers are created and again at each sync, which brings config maps and secrets up to
// date, and Manager.Unmount when the last container is gone.
package volume

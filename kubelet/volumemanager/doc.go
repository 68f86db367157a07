// Package volumemanager makes the volumes of pods on the host, as pkg/kubelet/volumemanager; which kinds there are is
// the table in package volumekinds. The kubelet core calls Manager.Mount before a pod's containers are created and
// again at each sync, which brings config maps, secrets, tokens and the pod's fields up to date, and Manager.Unmount
// when the last container is gone. An image as a volume is the runtime's to mount; here it is only recognised.
//
// On disk, a volume is <root>/pods/<uid>/volumes/kubernetes.io~<kind>/<name>, as every kubelet has it. Secrets,
// downwardAPI and projected volumes are on a tmpfs, so that no secret reaches a disk. What changes is swapped as one: a
// container sees all old or all new files, never a mixture (see swap.go).
package volumemanager

// Package volumemanager makes the volumes of pods on the host (pkg/kubelet/volumemanager). Package volumekinds has the
// kinds of volumes. Manager.Mount is called before a pod's containers are created. It is called again at each sync, to
// update config maps, secrets, tokens and the pod's fields. Manager.Unmount is called after the end of the last
// container.
//
// A volume's directory is <root>/pods/<uid>/volumes/kubernetes.io~<kind>/<name>, as in the kubelet. Secrets,
// downwardAPI and projected volumes are on a tmpfs, so that no secret reaches a disk. An update swaps all files at once
// (see swap.go).
package volumemanager

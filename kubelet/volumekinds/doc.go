// Package volumekinds is the table of the volume kinds of the kubelet core. It corresponds to the kubelet's volume
// plugins (pkg/volume). A Kind has its supported fields, defaults and validation, the objects that a volume needs, and
// either its files or its mount. Package volumemanager puts the volumes on the host.
//
// # A new kind
//
// Add a file with its Kind. In kinds.go, add the Kind to Kinds and remove its field from refused. TestKinds fails for a
// field of v1.VolumeSource that is neither listed nor refused, and for an incomplete Kind. TestKindsListsEveryKind
// fails for a Kind that Kinds does not return.
package volumekinds

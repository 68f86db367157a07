// Package volumekinds is the table of the kinds of volumes that the kubelet core has, as the volume plugins of
// pkg/volume are for the kubelet: what a manifest may say of each, which config maps and secrets it needs, the files
// that it has, and how it is described. Package volumemanager puts volumes on the host.
//
// # A new kind
//
// A file of this package has its Kind, and Kinds lists it; its field leaves the list of refused ones. That is all for a
// volume of files. One that is no directory of files needs its mount in package volumemanager, too. TestKinds fails
// where a field of v1.VolumeSource is neither listed nor refused, and where a Kind lacks something; volumemanager's
// TestEveryKindIsMounted fails where a mount is missing.
package volumekinds

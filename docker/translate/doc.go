// Package translate turns CRI configurations into Docker configurations and the engine's labels and names back into CRI
// metadata. It is pure: it does not wait, keeps no state, and gives the same result for the same input. Only
// ReadCDIDevices and ReadProfileFile read files. Callers pass them in as input. Every function may be called
// concurrently.
//
// Names, labels and annotations are the same as dockershim's and cri-dockerd's, so that a node can change between them
// without losing a pod. One label of our own, LabelRecord, says which of a container's labels and annotations the
// client gave. It is needed because Docker adds the image's labels to a container.
//
// Every create explicitly sets all values that an image or the engine's daemon.json could choose, even to the engine's
// usual default.
//
// A configuration that the CRI text does not allow fails with errdefs.ErrInvalidArgument. A valid configuration that is
// impossible on the connected engine fails with errdefs.ErrNotImplemented. Both messages begin with the path of the
// field, "config.linux.sysctls".
package translate

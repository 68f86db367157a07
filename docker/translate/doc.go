// Package translate turns CRI configurations into Docker configurations and
// the engine's labels and names back into CRI metadata. It is pure: nothing
// here waits, touches the file system or keeps state, so every function may be
// called concurrently and gives the same answer for the same input.
//
// Names, labels and annotations are those of dockershim and cri-dockerd, so
// that a node changes from one to the other without losing a pod. One label of
// our own, LabelRecord, holds what theirs cannot: which of a container's labels
// and annotations the client gave, as opposed to those that Docker merged in
// from the image.
//
// Everything that an image or the engine's daemon.json could choose for a
// container is set explicitly on every create, also where the value is the
// engine's usual default.
//
// A configuration that is wrong by the CRI text fails with
// errdefs.ErrInvalidArgument, one that is right but cannot be said to the
// connected engine fails with errdefs.ErrNotImplemented. Both messages begin
// with the path of the field, "config.linux.sysctls".
package translate

// Package translate turns CRI configurations into Docker configurations and the engine's labels and names back into CRI
// metadata. It is pure: it neither waits nor touches files nor keeps state. Every function may be called concurrently
// and gives the same answer for the same input.
//
// Names, labels and annotations equal dockershim's and cri-dockerd's, so that a node changes from one to the other
// without losing a pod. One label of our own, LabelRecord, says which of a container's labels and annotations the
// client gave. Docker merges the others in from the image.
//
// Every create sets all values explicitly that an image or the engine's daemon.json could choose, also where the value
// is the engine's usual default.
//
// A configuration that is wrong by the CRI text fails with errdefs.ErrInvalidArgument. One that is right but impossible
// on the connected engine fails with errdefs.ErrNotImplemented. Both messages begin with the path of the field,
// "config.linux.sysctls".
package translate

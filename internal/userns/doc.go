// Package userns makes user namespaces and mounts files with their owners mapped. It uses only the standard library,
// because criadapter-oci needs it, too.
//
// A program with threads can neither make a user namespace of its own nor enter one. So [Make] starts a child in a new
// user namespace, and in the other namespaces that the user namespace owns. The child stays stopped before its first
// instruction until the caller has pinned or used the namespaces. ID-mapped mounts map the owners of files
// ([Namespace.Clone]): since Linux 5.12 for ext4 and XFS, since 5.19 for the layers of an overlay, and since 6.3 for
// tmpfs.
package userns

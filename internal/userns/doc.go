// Package userns makes user namespaces and mounts files with their owners mapped. It uses only the standard library,
// because criadapter-oci needs it, too.
//
// A program with threads can neither make a user namespace of its own nor enter one. So a child makes it, with the
// namespaces that belong to it. The child stops before its first instruction until its caller has pinned or used them
// ([Make]). ID-mapped mounts map the owners of files ([Namespace.Clone]): since Linux 5.12 for ext4 and XFS, since 5.19
// for the layers of an overlay, and since 6.3 for tmpfs.
package userns

// Package userns makes user namespaces and shows files with their owners. It uses only the standard library:
// criadapter-oci needs it, too.
//
// A program with threads can neither make a user namespace of its own nor enter one. So a child makes it, with the
// namespaces that belong to it. The child stops before its first instruction until its caller has pinned or used them
// ([Make]). Files get owners by mounts that map them ([Namespace.Clone]): from Linux 5.12 on for ext4 and XFS, 5.19 for
// the layers of an overlay, and 6.3 for tmpfs.
package userns

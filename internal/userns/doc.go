// Package userns makes user namespaces and shows files with their owners. It uses the
// standard library alone: criadapter-oci needs it, too.
//
// A program with threads cannot make a user namespace of its own, nor enter one. So a
// child makes it, with whatever is to belong to it, and stands still before its first
// instruction until somebody has pinned or used what it has made ([Make]). Files get
// owners by mounts that map them ([Namespace.Clone]), from Linux 5.12 on for ext4 and
// XFS, 5.19 for the layers of an overlay, and 6.3 for tmpfs.
package userns

// Package ocinote says what Docker's API cannot: criadapter writes a note about a
// container between the engine's create and start, and the program
// criadapter-oci, which the engine runs as an OCI runtime, finds it there, edits
// the container's OCI configuration accordingly and becomes the real runtime.
//
// A note belongs to one container id and lives until the container is removed,
// because a container is created anew at each start and its commands (exec) need
// it too. Notes lie in one directory, which should be on a tmpfs: after a reboot
// there are none, and a container of a pod that is gone cannot start.
//
// Editing is pure: it knows no files. What a note does not name stays as the
// engine wrote it, also what this package has never heard of. The package uses the
// standard library alone, because the program starts once for each operation on a
// container.
package ocinote

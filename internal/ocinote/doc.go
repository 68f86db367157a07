// Package ocinote says what Docker's API cannot. criadapter writes a note about a container between the engine's create
// and start. The engine runs the program criadapter-oci as an OCI runtime. It finds the note, edits the container's OCI
// configuration accordingly and becomes the real runtime.
//
// A note belongs to one container id and lives until the container is removed: each start creates a container anew, and
// its commands (exec) need the note too. Notes lie in one directory, which should be on a tmpfs. After a reboot there
// are none, and a container of a pod that is gone cannot start.
//
// Editing is pure: it knows no files. Fields that a note does not name stay as the engine wrote them, also ones that
// this package does not know. The package uses only the standard library, because the program starts once for each
// operation on a container.
package ocinote

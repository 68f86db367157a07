// Package ocinote passes to the OCI runtime the settings that Docker's API cannot express. criadapter writes a note
// about a container between the engine's create and start. The engine runs the program criadapter-oci as an OCI
// runtime. criadapter-oci finds the note, edits the container's OCI configuration accordingly and becomes the real
// runtime.
//
// A note belongs to one container id and lives until the container is removed. Each start of the container calls the
// runtime's `create` again, and each command in it (`exec`) needs the note, too. All notes are in one directory, which
// should be on a tmpfs. After a reboot there are no notes, so a container whose pod is gone cannot start.
// criadapter-oci changes a note once, see Process.GroupsOf.
//
// Editing is pure: it reads and writes no files. Fields that a note does not name stay as the engine wrote them, even
// fields that this package does not know. The package uses only the standard library, because the program starts once
// for each operation on a container.
package ocinote

// Package checkpoint keeps on disk what must survive a crash of criadapter and what Docker Engine cannot keep: the
// outcome of CNI ADD, the pinned network namespace, the client's configs and how far the logs have been written.
//
// There is one directory with one readable JSON file per pod, named after the sandbox container:
//
//	{
//	  "schemaVersion": 1,
//	  "checksum": "sha256:…",
//	  "record": { … }
//	}
//
// The checksum covers the bytes of the record exactly as they stand in the file, from its opening to its closing brace.
// Who repairs a file by hand finds the checksum that belongs to the new bytes in the message of the error that reports
// the mismatch.
//
// A file is replaced in this order, so that after a crash at any point the directory holds either the old record or the
// new one: write a temporary file in the same directory, fsync it, rename it over the old file, fsync the directory.
// What a crash leaves of the first steps is a temporary file; [Open] removes it. A file that cannot be read as a record
// is moved to the subdirectory "quarantine" and reported, never overwritten or dropped.
//
// The writes are our own because google/renameio does not fsync the directory, so a
// power cut can take back a record that a caller was told is kept.
package checkpoint

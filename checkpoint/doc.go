// Package checkpoint keeps on disk what must survive a crash of criadapter and what Docker Engine cannot keep: the
// outcome of CNI ADD, the pinned network namespace, the client's configs and how far the logs have been written.
//
// There is one directory with one readable JSON file per pod, named after the sandbox container:
//
//	{
//	  "schemaVersion": 3,
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
// # Schema versions
//
// The schema version is the layout of [Record]. Each change of Record raises it, also a new field: an older program
// that did not know the field would drop it with its next write. These are the rules for both directions:
//
//   - A record of a newer schema is refused: nothing is read from it, and its file is neither replaced nor removed. The
//     same holds for a field that this program's schema does not have, whatever number the file carries. [Store.List]
//     reports such records, so that their pods stay visible, by their heads: the sandbox id, the pod's metadata, the
//     creation time and the pod's config have the same names and types in every schema.
//   - A record of an older schema is read. Fields that it does not have are empty, and that must mean what the older
//     program meant. Its file gets the new number with the next write, and not before: until then the older program
//     can read it.
//   - A schema that renames or removes a field, or gives it another meaning, needs code in decode that turns an older
//     record into a new one.
//
// testdata/fields.txt lists each field with the schema that it came with. A test compares it with Record.
//
// The writes are our own because google/renameio does not fsync the directory, so a
// power cut can take back a record that a caller was told is kept.
package checkpoint

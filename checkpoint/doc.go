// Package checkpoint stores on disk what Docker Engine cannot store and what must survive a crash of criadapter: the
// result of CNI ADD, the pinned network namespace, the client's configs and the log positions.
//
// There is one directory with one readable JSON file per pod, named after the sandbox container:
//
//	{
//	  "schemaVersion": 7,
//	  "checksum": "sha256:…",
//	  "record": { … }
//	}
//
// The checksum covers the exact bytes of the record in the file, from its opening to its closing brace. After a repair
// by hand the checksum no longer matches, and the error names the checksum to write into the file.
//
// A file is replaced in this order: write a temporary file in the same directory, fsync it, rename it over the old
// file, fsync the directory. So after a crash at any point the directory has either the old record or the new one.
// [Open] removes temporary files that a crash left behind. A file that cannot be read as a record is moved to the
// subdirectory "quarantine" and reported, never overwritten or dropped.
//
// # Schema versions
//
// The schema version is the version of the layout of [Record]. Each change of Record raises it, even a new field: an
// older program would drop the field with its next write. The rules for both directions:
//
//   - A record of a newer schema is refused: it is not read, and its file is neither replaced nor removed. The same
//     applies to a record with a field that this program's schema does not have, whatever schema version its file
//     names. [Store.List] reports the heads of such records, so that their pods stay visible. The sandbox id, the pod's
//     metadata, the creation time and the pod's config have the same names and types in every schema.
//   - A record of an older schema is read. The fields that it lacks are empty, and an empty field must mean what the
//     older program meant. The next write gives the file the new number. Until then the older program can read it.
//   - A schema that renames or removes a field, or changes its meaning, needs code in decode that converts an older
//     record.
//
// testdata/fields.txt lists each field with the schema that it came with. A test compares it with Record.
//
// The package has its own writes because google/renameio does not fsync the directory. A power cut could then take back
// a saved record.
package checkpoint

// Package fields is the table of all fields of all CRI requests. Each field is implemented, refused or not applicable,
// and may need an engine or runtime. A request with a field that is always refused gets codes.Unimplemented with the
// field's path from [Check], and changes nothing.
//
// A field is named Message.field, by the protobuf names of runtime.v1. Messages that several requests share are named
// once. To add a field, begin here: find its row, and let docker/translate translate it, with a table test. Then change
// the row, and name the test that checks it from inside a container (truths_test.go). The tests of this package compare
// the table with the API's descriptors in both directions, with what translate refuses, and with docs/fields.md:
//
//	go test ./server/fields -update
//
// Requests that are refused with codes.InvalidArgument, because no runtime could execute them, are not in the table.
// The tests of docker/translate list them.
package fields

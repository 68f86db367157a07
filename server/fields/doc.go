// Package fields is the table of what becomes of every field of every CRI request: it is implemented, refused or not
// applicable, with the engine or runtime that it needs. A request that uses a field that is always refused gets
// codes.Unimplemented with the field's path from [Check], and changes nothing.
//
// A field is named Message.field, by the protobuf names of runtime.v1; messages that several requests share are named
// once. Begin here to add a field: find its row, have docker/translate translate it (its table test next to it), change
// the row, and name the test that looks at it from inside a container (truths_test.go). The tests of this package hold
// the table to the API's own description, in both directions, to what translate refuses, and docs/fields.md to the
// table:
//
//	go test ./server/fields -update
//
// What is refused with codes.InvalidArgument, because no runtime could make sense of it, is not in the table;
// docker/translate's tests list that.
package fields

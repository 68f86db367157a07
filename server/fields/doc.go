// Package fields is the table of all fields of all CRI requests. Each field is implemented, refused or not applicable,
// and may need an engine or runtime. A request with a field that is always refused gets codes.Unimplemented with the
// field's path from [Check], and changes nothing.
//
// A field is named Message.field, by the protobuf names of runtime.v1. Messages that several requests share are named
// once.
//
// The server's part of the table is in refused.go and abilities.go. The rest is in rows_*_test.go, where each field is
// in one row. A row has the field's effect, the requests that are refused for it, and its test on a real engine. The
// tests here send these requests to docker/translate, and compare the table with the API's descriptors in both
// directions. They write docs/fields.md:
//
//	go test ./server/fields -update
//
// To add a field, translate it in docker/translate, look at it in test/e2e, add its row, and write the document. A test
// fails for each step that is missing, and names the file.
package fields

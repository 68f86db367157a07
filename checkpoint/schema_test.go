package checkpoint

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/errdefs"

	"github.com/criadapter/criadapter/internal/testutil"
)

var update = flag.Bool("update", false, "add new fields of Record to testdata/fields.txt, once schemaVersion is raised")

// withVersion returns a record's file with another schema version.
func withVersion(file []byte, version string) []byte {
	old := fmt.Appendf(nil, `"schemaVersion": %d`, schemaVersion)
	return bytes.Replace(file, old, []byte(`"schemaVersion": `+version), 1)
}

// refusedFiles are contents of sandbox abc's file that only another program can have written, with a newer schema or an
// unknown field.
func refusedFiles(t *testing.T) map[string][]byte {
	withField := bytes.Replace([]byte(mustEncode(t, fullRecord("abc"))), []byte(`"name": "web"`),
		[]byte(`"name": "web", "new": 1`), 1)
	deep := bytes.Replace([]byte(mustEncode(t, fullRecord("abc"))), []byte(`"inode": 7`),
		[]byte(`"inode": 7, "new": 1`), 1)
	otherType := bytes.Replace([]byte(mustEncode(t, fullRecord("abc"))), []byte(`"phase": "ready"`),
		[]byte(`"phase": {"name": "ready"}`), 1)
	return map[string][]byte{
		"next version, new type":  withVersion(wrap(otherType), fmt.Sprint(schemaVersion+1)),
		"next version":            withVersion(fileOf(t, fullRecord("abc")), fmt.Sprint(schemaVersion+1)),
		"next version, new field": withVersion(wrap(withField), fmt.Sprint(schemaVersion+1)),
		"other envelope":          []byte(`{"schemaVersion": 77, "checksum": {"kind": "none"}, "pods": []}`),
		"unknown field":           wrap(withField),
		"unknown field, deep":     wrap(deep),
		"unknown field, older":    withVersion(wrap(withField), "1"),
	}
}

// A newer program's record is refused and kept, whatever the rest of its file looks like.
func TestNewerRecordIsLeftAlone(t *testing.T) {
	for name, content := range refusedFiles(t) {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			mustWrite(t, dir, "abc.json", content)
			mustWrite(t, dir, "zzz.json", fileOf(t, fullRecord("zzz")))
			s := mustOpen(t, dir)
			_, loadErr := s.Load(t.Context(), "abc")
			listing, listErr := s.List(t.Context())
			for call, err := range map[string]error{
				"Load":   loadErr,
				"List":   listErr,
				"Save":   s.Save(t.Context(), fullRecord("abc")),
				"Update": s.Update(t.Context(), "abc", func(*Record) error { return nil }),
				"Delete": s.Delete(t.Context(), "abc"),
			} {
				var refused *refusedError
				if !errors.As(err, &refused) || !errdefs.IsFailedPrecondition(err) {
					t.Errorf("%s returned %v, want a *refusedError that is FailedPrecondition", call, err)
					continue
				}
				if text := err.Error(); !strings.Contains(text, "abc.json") ||
					!strings.Contains(text, "start the newer program again") {
					t.Errorf("%s does not say what to do: %s", call, text)
				}
			}
			testutil.Require(t, len(listing.Records) == 1 && len(listing.Quarantined) == 0 && len(listing.Refused) == 1,
				"List returned %+v; want the other pod's record and the head of this one", listing)
			want := Record{SandboxID: "abc"}
			if name != "other envelope" {
				want = headOf(fullRecord("abc"))
			}
			requireRecord(t, listing.Refused[0], want)
			requireFiles(t, dir, "abc.json", "zzz.json")
			testutil.Holds(t, filepath.Join(dir, "abc.json"), string(content), "the file was changed")
		})
	}
}

// A file that an earlier build of schema version 1 wrote can be read for ever.
func TestSchemaVersion1StaysReadable(t *testing.T) {
	content, err := os.ReadFile(filepath.Join("testdata", "v1.json"))
	testutil.Must(t, err)
	r, err := decode(content)
	testutil.Must(t, err)
	c := r.Containers["c1"]
	got := fmt.Sprint(r.SandboxID, r.Name, r.Namespace, r.UID, r.Attempt, r.Phase, r.NetnsPath, r.RuntimeHandler,
		r.Network.Config, r.Network.IPs, string(r.Network.Result), string(r.Config), string(c.Config), c.LogPosition)
	want := `abcwebdefault6d6a9c11-uid 2 ready /run/netns/cri-abc runc bridge [10.88.0.4 fd00::4] ` +
		`{"cniVersion":"1.0.0"} {"metadata":{"name":"web"}} {"metadata":{"name":"nginx"}} {7 42 0 0 0 9}`
	testutil.Assert(t, strings.ReplaceAll(got, " ", "") == strings.ReplaceAll(want, " ", ""),
		"the file decodes to\n%s\nwant\n%s", got, want)
}

// The older program can go on with a file until the newer one has something to write.
func TestOlderRecordIsUpgradedByItsNextWrite(t *testing.T) {
	dir := t.TempDir()
	older, err := os.ReadFile(filepath.Join("testdata", "v1.json"))
	testutil.Must(t, err)
	mustWrite(t, dir, "abc.json", older)
	s := mustOpen(t, dir)
	want := mustLoad(t, s, "abc")
	testutil.Holds(t, filepath.Join(dir, "abc.json"), string(older), "reading changed the file")
	testutil.Must(t, s.Update(t.Context(), "abc", func(r *Record) error { r.Attempt++; return nil }))
	want.Attempt++
	requireRecord(t, mustLoad(t, mustOpen(t, dir), "abc"), want)
	content, err := os.ReadFile(filepath.Join(dir, "abc.json"))
	version := fmt.Sprintf(`"schemaVersion": %d,`, schemaVersion)
	testutil.Assert(t, err == nil && bytes.Contains(content, []byte(version)),
		"the file does not have %s (%v):\n%s", version, err, content)
}

// testdata/fields.txt says which schema each field of Record came with. This test fails for a field that is added,
// renamed, removed or of another type. The fix is always the same: raise schemaVersion, read the rules in the
// package comment, and run go test ./checkpoint -update.
func TestEachChangeOfRecordRaisesTheSchema(t *testing.T) {
	const file = "testdata/fields.txt"
	content, err := os.ReadFile(file)
	testutil.Must(t, err)
	var highest int
	known := map[string]int{}
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	if _, err := fmt.Sscanf(lines[0], "schema version %d", &highest); err != nil {
		t.Fatal(err)
	}
	for _, line := range lines[1:] {
		number, field, _ := strings.Cut(line, " ")
		var version int
		if _, err := fmt.Sscan(number, &version); err != nil {
			t.Fatal(err)
		}
		known[field] = version
	}
	fields := fieldsOf("", reflect.TypeFor[Record]())
	var added []string
	for _, field := range fields {
		if known[field] == 0 {
			added = append(added, field)
			known[field] = schemaVersion
		}
	}
	var removed []string
	for field := range known {
		if !slices.Contains(fields, field) {
			removed = append(removed, field)
		}
	}
	switch {
	case len(removed) > 0:
		t.Errorf(
			"Record has no field %q any more: let decode convert older records, then take the field out of %s",
			removed, file)
	case len(added) > 0 && highest >= schemaVersion:
		t.Errorf("%q came with no schema version: raise schemaVersion to %d, then run go test ./checkpoint -update",
			added, highest+1)
	case *update:
		writeFields(t, file, fields, known)
	case len(added) > 0, highest != schemaVersion:
		t.Errorf("%s is of schema version %d: run go test ./checkpoint -update", file, highest)
	}
}

func writeFields(t *testing.T, file string, fields []string, since map[string]int) {
	t.Helper()
	var text strings.Builder
	fmt.Fprintf(&text, "schema version %d\n", schemaVersion)
	for _, field := range fields {
		fmt.Fprintf(&text, "%d %s\n", since[field], field)
	}
	testutil.Must(t, os.WriteFile(file, []byte(text.String()), 0o644))
}

// fieldsOf returns the fields of a record's JSON, each with its type.
func fieldsOf(path string, in reflect.Type) []string {
	switch in.Kind() {
	case reflect.Pointer:
		return fieldsOf(path, in.Elem())
	case reflect.Map:
		return fieldsOf(path+"[]", in.Elem())
	}
	if in.Kind() != reflect.Struct || in.PkgPath() != reflect.TypeFor[Record]().PkgPath() {
		return []string{path + " " + in.String()}
	}
	var fields []string
	for i := range in.NumField() {
		name, _, _ := strings.Cut(in.Field(i).Tag.Get("json"), ",")
		fields = append(fields, fieldsOf(strings.TrimPrefix(path+"."+name, "."), in.Field(i).Type)...)
	}
	return fields
}

package deps

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

// TestExportedNamesAreUsed fails for exported names that no other package uses.
func TestExportedNamesAreUsed(t *testing.T) {
	units, err := Load(t.Context(), root)
	testutil.Must(t, err)
	testutil.Require(t, len(units) >= 50, "found %d packages only", len(units))
	for _, name := range Unused(units) {
		t.Errorf("%s is exported and no other package uses it: unexport it, or delete it", name)
	}
}

func TestUnused(t *testing.T) {
	dir := t.TempDir()
	for path, text := range map[string]string{
		"go.mod": "module " + Module + "\n\ngo 1.26\n",
		"a/a.go": `package a

import "io"

type Thing struct {
	Set, Unset int
	Tagged     int ` + "`json:\"tagged\"`" + `
	Embedded
}

type Embedded struct{ Lost int }

func (t *Thing) Used() Result   { return Result{} }
func (t *Thing) Unused()        {}
func (t *Thing) Close() error   { return nil }
func (t *Thing) Visit(n int)    {}
func (t *Thing) String() string { return "" }

type Result struct{ Part Part }
type Part struct{}
type Alias = Part
type Encoded struct{ Field int }
type Unkeyed struct{ A, B int }
type From struct{ C int }
type Tested int
type Alone int

const (
	One = iota
	Two
)
const Three = 3

var Closer io.Closer

func Returns() (Alias, error) { return Alias{}, nil }
func Generic[T any](t T) T    { return t }
func Lone()                   { Lone() }
`,
		"a/a_test.go": "package a\n\nfunc init() { (&Thing{}).Unused() }\n",
		"b/b.go": `package b

import (
	"encoding/json"

	"` + Module + `/a"
)

type visitor interface{ Visit(count int) }
type to struct{ C int }

func init() {
	var thing = a.Thing{Set: 1}
	thing.Used()
	_, _ = json.Marshal(a.Encoded{})
	_ = a.Unkeyed{1, 2}
	_ = to(a.From{})
	_ = a.One
	_, _ = a.Returns()
	_ = a.Generic(1)
	_ = visitor(nil)
}
`,
		"b/b_test.go":      "package b_test\n\nimport \"" + Module + "/a\"\n\nvar _ a.Tested\n",
		"test/c/c.go":      "package c\n\nimport \"" + Module + "/a\"\n\nvar Free = a.Closer\n",
		"internal/d/d.go":  "package d\n\ntype Box[T any] struct{ Value, Rest T }\n",
		"internal/e/e.go":  "package e\n\nimport \"" + Module + "/internal/d\"\n\nvar e = d.Box[int]{Value: 1}\n",
		"internal/e/ee.go": "package e\n\nfunc init() { _ = e }\n",
	} {
		testutil.WriteFile(t, filepath.Join(dir, path), text)
	}
	units, err := Load(t.Context(), dir)
	testutil.Must(t, err)
	want := []string{
		"a: Alone", "a: Embedded.Lost", "a: Lone", "a: Result.Part", "a: Thing.Unset", "a: Thing.Unused", "a: Three",
		"internal/d: Box.Rest",
	}
	got := Unused(units)
	testutil.Assert(t, slices.Equal(got, want), "got  %q\nwant %q", got, want)
}

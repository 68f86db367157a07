package main

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

func knows() bool    { return true }
func knowsNot() bool { return false }

func TestEditSpec(t *testing.T) {
	tests := []struct {
		name, spec, want string
		knowsTime        func() bool
	}{
		{"negative score", `{"process":{"oomScoreAdj":-998}}`, `{"process":{"oomScoreAdj":0}}`, knows},
		{"other scores", `{"process":{"oomScoreAdj":900}}`, `{"process":{"oomScoreAdj":900}}`, knows},
		{"no score", `{"process":{"args":["a"]}}`, `{"process":{"args":["a"]}}`, knows},
		{"capability in some sets",
			`{"process":{"capabilities":{"bounding":["CAP_KILL","CAP_SYS_RESOURCE"],"ambient":["CAP_SYS_RESOURCE"],` +
				`"effective":["CAP_KILL"]}}}`,
			`{"process":{"capabilities":{"bounding":["CAP_KILL"],"ambient":[],"effective":["CAP_KILL"]}}}`, knows},
		{"unknown members stay", `{"ociVersion":"9","process":{"new":{"a":[1.5,null]},"oomScoreAdj":-1},"x":{}}`,
			`{"ociVersion":"9","process":{"new":{"a":[1.5,null]},"oomScoreAdj":0},"x":{}}`, knows},
		{"time namespace of an old runc", `{"linux":{"namespaces":[{"type":"pid"},{"type":"time"}],"x":1}}`,
			`{"linux":{"namespaces":[{"type":"pid"}],"x":1}}`, knowsNot},
		{"time namespace of a new runc", `{"linux":{"namespaces":[{"type":"time"}]}}`,
			`{"linux":{"namespaces":[{"type":"time"}]}}`, knows},
		{"null everywhere", `{"process":null,"linux":{"namespaces":null}}`,
			`{"process":null,"linux":{"namespaces":null}}`, knows},
		{"empty", `{}`, `{}`, knows},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := editSpec([]byte(test.spec), test.knowsTime)
			testutil.Must(t, err)
			testutil.Assert(t, sameJSON(t, string(got), test.want), "got %s, want %s", got, test.want)
		})
	}
}

func TestEditSpecAsksForTimeOnlyWhenNeeded(t *testing.T) {
	ask := func() bool { t.Error("editSpec runs runc, a few milliseconds for each container"); return true }
	_, err := editSpec([]byte(`{"linux":{"namespaces":[{"type":"pid"}]}}`), ask)
	testutil.Must(t, err)
}

func TestEditSpecRefuses(t *testing.T) {
	for _, spec := range []string{``, `[]`, `{"process":[]}`, `{"process":{"oomScoreAdj":"x"}}`,
		`{"linux":{"namespaces":{}}}`} {
		got, err := editSpec([]byte(spec), knows)
		testutil.Assert(t, err != nil, "%q is accepted and becomes %s", spec, got)
	}
}

func TestEditProcess(t *testing.T) {
	got, err := editProcess([]byte(`{"args":["id"],"capabilities":{"permitted":["CAP_SYS_RESOURCE"]}}`))
	testutil.Assert(t, err == nil && sameJSON(t, string(got), `{"args":["id"],"capabilities":{"permitted":[]}}`),
		"got %s, %v", got, err)
}

func TestHasTimeNamespace(t *testing.T) {
	testutil.Assert(t, hasTimeNamespace([]byte(`{"linux":{"namespaces":["pid","time"]}}`)),
		"a runc with time namespaces is taken for one without")
	if hasTimeNamespace([]byte(`{"linux":{"namespaces":["pid"]}}`)) || hasTimeNamespace([]byte("unknown command")) {
		t.Error("a runc without time namespaces is taken for one with them")
	}
}

func FuzzEditSpec(f *testing.F) {
	f.Add(`{"process":{"oomScoreAdj":-5,"capabilities":{"bounding":["CAP_SYS_RESOURCE"]}},` +
		`"linux":{"namespaces":[{"type":"time"}]}}`)
	f.Add(`{"process":{"capabilities":null}}`)
	f.Add(`{"linux":{"namespaces":[null,{"type":7}]}}`)
	f.Fuzz(func(t *testing.T, spec string) {
		once, err := editSpec([]byte(spec), knowsNot)
		if err != nil {
			return
		}
		twice, err := editSpec(once, knowsNot)
		testutil.Assert(t, err == nil && sameJSON(t, string(once), string(twice)),
			"%s, edited again: %s, %v", once, twice, err)
	})
}

// sameJSON compares with numbers as they are written.
func sameJSON(t *testing.T, a, b string) bool {
	t.Helper()
	decode := func(s string) (value any) {
		d := json.NewDecoder(strings.NewReader(s))
		d.UseNumber()
		err := d.Decode(&value)
		testutil.Require(t, err == nil, "%s: %v", s, err)
		return value
	}
	return reflect.DeepEqual(decode(a), decode(b))
}

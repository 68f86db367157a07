package checkpoint

import (
	"reflect"
	"testing"
	"time"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestRecordsShareNoMemoryWithTheStore(t *testing.T) {
	s := mustOpen(t, t.TempDir())
	saved := fullRecord("abc")
	mustSave(t, s, saved)
	loaded := mustLoad(t, s, "abc")
	listing, err := s.List(t.Context())
	testutil.Must(t, err)
	var kept *Record
	testutil.Must(t, s.Update(t.Context(), "abc", func(r *Record) error { kept = r; return nil }))
	for name, r := range map[string]*Record{"saved": &saved, "loaded": &loaded, "listed": &listing.Records[0],
		"updated": kept} {
		t.Run(name, func(t *testing.T) {
			scribble(t, reflect.ValueOf(r).Elem())
			requireRecord(t, mustLoad(t, s, "abc"), fullRecord("abc"))
		})
	}
}

// scribble changes everything that v refers to, down to the last byte. An unset field fails the test: fullRecord must
// use every field, so that clone cannot miss a new one.
func scribble(t *testing.T, v reflect.Value) {
	t.Helper()
	if v.IsZero() {
		t.Errorf("fullRecord leaves a %v unset", v.Type())
		return
	}
	if v.Type() == reflect.TypeFor[time.Time]() {
		return // a value: nothing in it can be changed
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			scribble(t, v.Field(i))
		}
	case reflect.Pointer:
		scribble(t, v.Elem())
	case reflect.Slice:
		for i := range v.Len() {
			v.Index(i).SetZero()
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			if key.String() == "c1" {
				scribble(t, v.MapIndex(key))
			}
			v.SetMapIndex(key, reflect.Value{})
		}
	case reflect.String, reflect.Uint32, reflect.Uint64, reflect.Int64:
		// A value: copied with whatever holds it.
	default:
		t.Errorf("scribble does not know %v: teach it and clone", v.Type())
	}
}

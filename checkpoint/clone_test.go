package checkpoint

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/containerd/errdefs"

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

func TestLoadContainer(t *testing.T) {
	s := mustOpen(t, t.TempDir())
	mustSave(t, s, fullRecord("abc"))
	for range 2 { // first from the store's memory, then from the disk of a newly opened store
		kept, err := s.LoadContainer(t.Context(), "abc", "c1")
		testutil.Must(t, err)
		testutil.Assert(t, reflect.DeepEqual(kept, fullRecord("abc").Containers["c1"]), "got %+v", kept)
		scribble(t, reflect.ValueOf(kept))
		requireRecord(t, mustLoad(t, s, "abc"), fullRecord("abc"))
		s = mustOpen(t, s.dir)
	}
	for _, unknown := range [][2]string{{"abc", "c9"}, {"abd", "c1"}} {
		_, err := s.LoadContainer(t.Context(), unknown[0], unknown[1])
		testutil.FailsWith(t, err, errdefs.ErrNotFound, "container %s of %s", unknown[1], unknown[0])
	}
}

// BenchmarkLoadContainer reads one container of a pod with a hundred, as each inspect does.
func BenchmarkLoadContainer(b *testing.B) {
	s := mustOpen(b, b.TempDir())
	record := fullRecord("abc")
	for i := range 100 {
		record.Containers[fmt.Sprint(i)] = record.Containers["c1"]
	}
	mustSave(b, s, record)
	b.ReportAllocs()
	for b.Loop() {
		_, err := s.LoadContainer(b.Context(), "abc", "c1")
		testutil.Check(b, err)
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
		return // two copies of a time.Time share nothing that can be changed
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
	case reflect.Bool, reflect.String, reflect.Uint32, reflect.Uint64, reflect.Int, reflect.Int64:
		// Two copies of a value of these kinds share no memory.
	default:
		t.Errorf("scribble does not know %v: extend scribble and clone", v.Type())
	}
}

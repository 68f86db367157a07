package build

import (
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestReleasesAreEntriesOfTheirOwn(t *testing.T) {
	newest, between := Newest(), Between()
	without := newest
	without.programs = newest.programs[1:]
	keys := map[string]bool{newest.key(): true, between.key(): true, without.key(): true}
	testutil.Assert(t, len(keys) == 3, "the entries of the cache are %v, want three", keys)
	for _, r := range []Release{newest, between} {
		last := r.programs[len(r.programs)-1]
		for _, p := range r.programs {
			if p.name == "runc" && !p.seccomp {
				t.Errorf("runc of %s would ignore seccomp profiles", r.version)
			}
		}
		testutil.Assert(t, last.version != "" && last.pkg != "", "%+v", last)
	}
}

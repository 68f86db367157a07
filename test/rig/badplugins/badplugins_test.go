package badplugins

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

// Calls go wrong at the rate and with the faults given to Begin. One seed always chooses the same calls. No call goes
// wrong after End.
func TestDraw(t *testing.T) {
	const calls = 200
	draw := func(t *testing.T) (drawn []string) {
		plugins := Plugins{t.TempDir()}
		testutil.Must(t, plugins.Begin(7, 30, Hang, Garbage))
		for range calls {
			fault, err := plugins.draw()
			testutil.Must(t, err)
			drawn = append(drawn, fault)
		}
		made, err := plugins.Made()
		testutil.Must(t, err)
		if bad := made[Hang] + made[Garbage]; bad+made["none"] != calls || bad < 30 || bad > 90 || made[Hang] == 0 ||
			made[Garbage] == 0 {
			t.Errorf("%d calls, of which 30%% should go wrong: %v", calls, made)
		}
		testutil.Must(t, plugins.End())
		fault, err := plugins.draw()
		testutil.Assert(t, err == nil && fault == "" && !plugins.bad(), "after the end: %q, %v", fault, err)
		return drawn
	}
	first, second := draw(t), draw(t)
	testutil.Assert(t, slices.Equal(first, second), "one seed gives two schedules")
}

func TestNoCallsMade(t *testing.T) {
	made, err := Plugins{filepath.Join(t.TempDir(), "nothing")}.Made()
	testutil.Assert(t, err == nil && len(made) == 0, "%v, %v", made, err)
}

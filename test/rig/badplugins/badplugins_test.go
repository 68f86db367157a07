package badplugins

import (
	"path/filepath"
	"slices"
	"testing"
)

// Calls go wrong as often and in the ways that Begin says, the same ones each time, and not any more after End.
func TestDraw(t *testing.T) {
	const calls = 200
	draw := func(t *testing.T) (drawn []string) {
		plugins := Plugins{t.TempDir()}
		if err := plugins.Begin(7, 30, Hang, Garbage); err != nil {
			t.Fatal(err)
		}
		for range calls {
			fault, err := plugins.draw()
			if err != nil {
				t.Fatal(err)
			}
			drawn = append(drawn, fault)
		}
		made, err := plugins.Made()
		if err != nil {
			t.Fatal(err)
		}
		if bad := made[Hang] + made[Garbage]; bad+made["none"] != calls || bad < 30 || bad > 90 || made[Hang] == 0 || made[Garbage] == 0 {
			t.Errorf("of %d calls, 30%% of which go wrong: %v", calls, made)
		}
		if err := plugins.End(); err != nil {
			t.Fatal(err)
		}
		if fault, err := plugins.draw(); err != nil || fault != "" || plugins.bad() {
			t.Errorf("after the end: %q, %v", fault, err)
		}
		return drawn
	}
	if first, second := draw(t), draw(t); !slices.Equal(first, second) {
		t.Error("one seed gives two schedules")
	}
}

func TestNoCallsMade(t *testing.T) {
	made, err := Plugins{filepath.Join(t.TempDir(), "nothing")}.Made()
	if err != nil || len(made) != 0 {
		t.Errorf("%v, %v", made, err)
	}
}

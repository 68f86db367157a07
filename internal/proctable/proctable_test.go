package proctable

import (
	"fmt"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestParse(t *testing.T) {
	tests := []struct {
		text string
		want Stat
		ok   bool
	}{
		{"12 (sh) S 3 4 5 0 -1 4194304", Stat{12, 3, 5, false}, true},
		{"12 (a) b (c)) R 3 4 5 0", Stat{12, 3, 5, false}, true},
		{"12 () Z 0 0 0", Stat{12, 0, 0, true}, true},
		{"12 (sh) S 3 4", Stat{}, false},
		{"12 sh S 3 4 5", Stat{}, false},
		{"x (sh) S 3 4 5", Stat{}, false},
		{"12 (sh) S x 4 5", Stat{}, false},
		{")(", Stat{}, false},
		{"", Stat{}, false},
	}
	for _, tt := range tests {
		got, ok := parse([]byte(tt.text))
		if ok != tt.ok || ok && got != tt.want {
			t.Errorf("parse(%q) = %+v, %t", tt.text, got, ok)
		}
	}
}

// FuzzParse reads the line of any process with any command, and the command as a line.
func FuzzParse(f *testing.F) {
	f.Add(12, 3, 5, false, "sh")
	f.Add(1, 0, 1, true, "a) b (c")
	f.Add(1, 0, 1, true, "1 (a) Z 2 3 4")
	f.Fuzz(func(t *testing.T, pid, parent, session int, zombie bool, command string) {
		want := Stat{PID: pid, Parent: parent, Session: session, zombie: zombie}
		state := map[bool]string{false: "S", true: "Z"}[zombie]
		line := fmt.Sprintf("%d (%s) %s %d 4 %d 0 -1 4194304\n", pid, command, state, parent, session)
		got, ok := parse([]byte(line))
		testutil.Assert(t, ok && got == want, "parse(%q) = %+v, %t", line, got, ok)
		_, _ = parse([]byte(command)) // must not panic
	})
}

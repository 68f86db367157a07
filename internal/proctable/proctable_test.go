package proctable

import (
	"bytes"
	"testing"
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

func FuzzParse(f *testing.F) {
	f.Add([]byte("12 (sh) S 3 4 5 0 -1 4194304"))
	f.Add([]byte("12 (a) b (c)) R 3 4 5 0"))
	f.Fuzz(func(t *testing.T, content []byte) {
		if _, ok := parse(content); ok && bytes.IndexByte(content, '(') < 0 {
			t.Errorf("%q has no command", content)
		}
	})
}

package volume

import (
	"slices"
	"strings"
	"testing"
)

func TestParseMountTable(t *testing.T) {
	table := "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw\n" +
		"37 35 0:5 / /a\\040b\\134c rw - tmpfs tmpfs rw\nshort line\n"
	if got, want := parseMountTable([]byte(table)), []string{"/mnt2", "/a b\\c"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func FuzzUnescape(f *testing.F) {
	for _, seed := range []string{"", "/a", `/a\040b`, `\`, `\0`, `\777`, `\134040`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, field string) {
		got := unescape(field)
		if len(got) > len(field) || !strings.Contains(field, `\`) && got != field {
			t.Errorf("unescape(%q) = %q", field, got)
		}
	})
}

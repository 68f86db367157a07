package logs

import (
	"strings"
	"testing"
	"time"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestAppendCRI(t *testing.T) {
	at := time.Date(2024, 2, 29, 23, 59, 59, 120_000_000, time.UTC).UnixNano()
	const stamp = "2024-02-29T23:59:59.12Z"
	long := strings.Repeat("x", 1<<20)
	tests := []struct {
		name  string
		entry entry
		want  string
	}{
		{"whole line", entry{at, stdout, []byte("hello"), false}, stamp + " stdout F hello\n"},
		{"stderr", entry{at, stderr, []byte("oh no"), false}, stamp + " stderr F oh no\n"},
		{"piece", entry{at, stdout, []byte("hel"), true}, stamp + " stdout P hel\n"},
		{"empty line", entry{at, stdout, nil, false}, stamp + " stdout F \n"},
		{"blanks are content", entry{at, stdout, []byte("  a  "), false}, stamp + " stdout F   a  \n"},
		{"not UTF-8", entry{at, stdout, []byte("a\xff\x80b"), false}, stamp + " stdout F a\xff\x80b\n"},
		{"NUL", entry{at, stdout, []byte("a\x00b"), false}, stamp + " stdout F a\x00b\n"},
		{"carriage return of a terminal", entry{at, stdout, []byte("a\r"), false}, stamp + " stdout F a\r\n"},
		{"1 MiB", entry{at, stdout, []byte(long), false}, stamp + " stdout F " + long + "\n"},
		{"line feed inside", entry{at, stdout, []byte("a\nb"), false},
			stamp + " stdout F a\n" + stamp + " stdout F b\n"},
		{"line feed inside a piece", entry{at, stderr, []byte("a\nb"), true},
			stamp + " stderr F a\n" + stamp + " stderr P b\n"},
		{"nanoseconds", entry{1, stdout, []byte("a"), false}, "1970-01-01T00:00:00.000000001Z stdout F a\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := string(tt.entry.appendCRI([]byte("before\n")))
			testutil.Assert(t, got == "before\n"+tt.want, "got %.200q, want %.200q", got, "before\n"+tt.want)
		})
	}
}

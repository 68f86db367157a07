package numbered

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

func record(number int) string {
	return fmt.Sprintf("2026-01-02T03:04:05.000000006Z stdout F line %08d %085d\n", number, 0)
}

func records(from, to int) (text []byte) {
	for number := from; number <= to; number++ {
		text = append(text, record(number)...)
	}
	return text
}

// A rotated and partly compressed log is read as a whole. Lost and repeated lines are counted.
func TestCount(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "0.log")
	var packed bytes.Buffer
	to := gzip.NewWriter(&packed)
	_, err := to.Write(records(1, 10))
	testutil.Must(t, to.Close())
	mark := "2026-01-02T03:04:05.000000006Z stderr F " + Marker + ": 2 lines\n"
	for name, text := range map[string][]byte{
		".20260102-030405.gz":  packed.Bytes(),
		".20260102-030405":     records(1, 10), // compressed, and not yet removed
		".20260102-030406":     records(11, 20),
		".20260102-030406.tmp": []byte("half"),
		"":                     slices.Concat(records(20, 20), []byte(mark), records(23, 25)),
	} {
		testutil.Must(t, os.WriteFile(path+name, text, 0o644))
	}
	files, err2 := Rotated(path)
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	got, err := Count(26, files...)
	testutil.Must(t, err)
	if got.Written != 26 || got.Read != 23 || got.Lost != 3 || got.Repeated != 1 || len(got.Marks) != 1 ||
		!slices.Equal(got.Gaps, []string{"20 to 20", "20 to 23"}) {
		t.Errorf("%v, gaps %v", got, got.Gaps)
	}
	if got, err := Count(7, files[0]); err != nil || got.Written != 10 || got.Lost != 0 {
		t.Errorf("of a container that went on writing: %v, %v", got, err)
	}
}

// A line after a higher number is disordered, unless it is a repetition.
func TestDisordered(t *testing.T) {
	for name, test := range map[string]struct {
		numbers                    []int
		lost, repeated, disordered int
	}{
		"in order":            {[]int{1, 2, 3}, 0, 0, 0},
		"two lines swapped":   {[]int{1, 3, 2, 4}, 0, 0, 1},
		"a block too late":    {[]int{4, 5, 1, 2, 3}, 0, 0, 3},
		"a block twice":       {[]int{1, 2, 1, 2, 3}, 0, 2, 0},
		"a lost line":         {[]int{1, 3}, 1, 0, 0},
		"late, and then lost": {[]int{2, 1, 5}, 2, 0, 1},
	} {
		var lines []string
		for _, number := range test.numbers {
			lines = append(lines, fmt.Sprintf("line %08d %085d", number, 0))
		}
		got, err := CountLines(0, lines)
		testutil.Must(t, err)
		testutil.Assert(t, got.Lost == test.lost && got.Repeated == test.repeated && got.Disordered == test.disordered,
			"%s: %v", name, got)
	}
}

func TestOtherLinesAreRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "0.log")
	for name, text := range map[string]string{
		"half":         record(1)[:70],
		"partial":      "2026-01-02T03:04:05.000000006Z stdout P line\n",
		"another's":    "2026-01-02T03:04:05.000000006Z stdout F hello\n",
		"short number": "2026-01-02T03:04:05.000000006Z stdout F line 1\n",
	} {
		testutil.WriteFile(t, path, text)
		got, err := Count(1, path)
		testutil.Assert(t, err != nil, "%s: %v", name, got)
	}
}

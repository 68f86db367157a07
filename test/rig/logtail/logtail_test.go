package logtail

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	testutil.Must(t, os.WriteFile(path, []byte("beginning and end"), 0o600))
	for size, want := range map[int64]string{3: "end", 17: "beginning and end", 100: "beginning and end"} {
		testutil.Equal(t, Read(path, size), want, "the last %d bytes", size)
	}
	got := Read(path+"s", 1)
	testutil.Assert(t, strings.Contains(got, "no such file"), "a file that is not there: %q", got)
}

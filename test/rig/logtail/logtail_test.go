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
		if got := Read(path, size); got != want {
			t.Errorf("the last %d bytes: %q, want %q", size, got, want)
		}
	}
	if got := Read(path+"s", 1); !strings.Contains(got, "no such file") {
		t.Errorf("a file that is not there: %q", got)
	}
}

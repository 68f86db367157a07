package translate

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/criadapter/criadapter/internal/testutil"
)

// TestReadProfileFile reads a profile. A pipe, a device or a file that is too long gives an error: reading it must
// neither block nor fill the memory.
func TestReadProfileFile(t *testing.T) {
	dir := t.TempDir()
	good, long, pipe := filepath.Join(dir, "good"), filepath.Join(dir, "long"), filepath.Join(dir, "pipe")
	for path, content := range map[string]string{good: "{}", long: strings.Repeat(" ", maxProfile+1)} {
		testutil.Must(t, os.WriteFile(path, []byte(content), 0o600))
	}
	testutil.Must(t, unix.Mkfifo(pipe, 0o600))
	content, err := ReadProfileFile(good)
	testutil.Assert(t, err == nil && string(content) == "{}", "got %q, %v", content, err)
	for path, want := range map[string]string{
		long: "more than", pipe: "not a plain file", dir: "not a plain file", "/dev/zero": "not a plain file",
		filepath.Join(dir, "none"): "no such file",
	} {
		if content, err := ReadProfileFile(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %d bytes, %v, want %q", path, len(content), err, want)
		}
	}
}

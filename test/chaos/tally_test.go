package chaos

import (
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/numbered"
)

// count reads the CRI logs of a container, the oldest first. The container has written the lines 1 to written.
func count(t *testing.T, written int, paths ...string) numbered.Tally {
	t.Helper()
	tally, err := numbered.Count(written, paths...)
	testutil.Must(t, err)
	testutil.Assert(t, tally.Written == written,
		"line %d is in the log, but the container wrote only %d", tally.Written, written)
	return tally
}

func contents(t *testing.T, path string) []string {
	t.Helper()
	all, err := numbered.Contents(path)
	testutil.Must(t, err)
	return all
}

func lineNumber(t *testing.T, content string) int {
	t.Helper()
	number, err := numbered.Number(content)
	testutil.Must(t, err)
	return number
}

func rotatedLogs(t *testing.T, path string) []string {
	t.Helper()
	files, err := numbered.Rotated(path)
	testutil.Must(t, err)
	return files
}

package checkpoint

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

// Look sees what a store has written, and leaves everything where it is.
func TestLookChangesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pods")
	found, err := Look(dir)
	testutil.Assert(t, err == nil && len(found.Records) == 0, "a missing directory has %+v, %v", found, err)
	_, err = os.Stat(dir)
	testutil.Assert(t, os.IsNotExist(err), "the directory was made: %v", err)

	testutil.Must(t, mustOpen(t, dir).Save(t.Context(), Record{SandboxID: "good"}))
	mustWrite(t, dir, "newer"+fileSuffix, refusedFiles(t)["next version"])
	mustWrite(t, dir, "torn"+fileSuffix, []byte("{"))
	mustWrite(t, dir, "other"+fileSuffix, mustEncode(t, Record{SandboxID: "someone"}))
	mustWrite(t, dir, tempPrefix+"1", nil)
	testutil.Must(t, os.Mkdir(filepath.Join(dir, quarantineDir), 0o700))
	mustWrite(t, dir, quarantineDir+"/x", nil)
	before, err := namesIn(dir)
	testutil.Must(t, err)

	found, err = Look(dir)
	testutil.Must(t, err)
	testutil.Assert(t, len(found.Records) == 1 && found.Records[0].SandboxID == "good", "records %+v", found.Records)
	testutil.Assert(t, len(found.Unreadable) == 3, "unreadable %q", found.Unreadable)
	want := []string{filepath.Join(dir, quarantineDir, "x")}
	testutil.Assert(t, slices.Equal(found.Quarantined, want), "quarantined %q", found.Quarantined)
	after, err := namesIn(dir)
	testutil.Assert(t, err == nil && slices.Equal(before, after), "the directory has %q, had %q: %v", after, before,
		err)
}

// The records are found even if the quarantine cannot be read.
func TestLookWithoutTheQuarantine(t *testing.T) {
	dir := t.TempDir()
	testutil.Must(t, mustOpen(t, dir).Save(t.Context(), Record{SandboxID: "good"}))
	testutil.Must(t, os.RemoveAll(filepath.Join(dir, quarantineDir)))
	mustWrite(t, dir, quarantineDir, nil) // a file instead of the directory
	found, err := Look(dir)
	testutil.Assert(t, err == nil && len(found.Records) == 1, "found %+v, %v", found, err)
	testutil.Assert(t, found.QuarantineErr != nil, "the quarantine is read")
}

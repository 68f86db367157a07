package wholedir

import (
	"path/filepath"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

// TestTakeAwayAfterAFailedRemoval: TakeAway works again for a name whose files the caller did not remove the last time.
func TestTakeAwayAfterAFailedRemoval(t *testing.T) {
	root := t.TempDir()
	for range 2 {
		making, err := Make(root)
		testutil.Must(t, err)
		testutil.WriteFile(t, filepath.Join(making, "file"), "")
		testutil.Must(t, Publish(making, "name"))
		_, err = TakeAway(root, "name")
		testutil.Must(t, err)
		testutil.Gone(t, filepath.Join(root, "name"))
	}
}

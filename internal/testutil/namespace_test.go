package testutil

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// skipping is set in the environment of the run in which TestSkipInUserNamespace skips.
const skipping = "TESTUTIL_SKIP_IN_USER_NAMESPACE"

// TestSkipInUserNamespace checks that a skip in the namespace skips the calling test, too. It runs itself once more and
// reads the output, so that no skip is reported here.
func TestSkipInUserNamespace(t *testing.T) {
	if os.Getenv(skipping) != "" {
		if !InUserNamespace(t) {
			t.Skip("for a reason")
		}
		return
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), skipping+"=1")
	output, err := cmd.CombinedOutput()
	Must(t, err, string(output))
	Assert(t, strings.Contains(string(output), "\n--- SKIP: "+t.Name()+" (") &&
		strings.Contains(string(output), "for a reason"), "the run printed\n%s", output)
}

package bundle

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

// TestJournal replaces journalctl with another program. make package-test runs the real journalctl.
func TestJournal(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	for name, c := range map[string]struct{ script, output, complaint string }{
		"lines":      {"for arg; do echo $arg; done", "--unit=one\n", ""},
		"none":       {"", "", "nothing of the unit one: name another with --unit"},
		"it fails":   {"echo no journal >&2; exit 1", "", "exit status 1: no journal; name the log's file"},
		"it is away": {"-", "", "executable file not found"},
	} {
		program := filepath.Join(dir, "journalctl")
		testutil.Must(t, os.WriteFile(program, []byte("#!/bin/sh\n"+c.script+"\n"), 0o755))
		if c.script == "-" {
			testutil.Must(t, os.Remove(program))
		}
		output, err := journal(t.Context(), "one")
		if !strings.HasSuffix(string(output), c.output) || c.complaint == "" && err != nil ||
			c.complaint != "" && (err == nil || !strings.Contains(err.Error(), c.complaint)) {
			t.Errorf("%s: %q, %v", name, output, err)
		}
	}
}

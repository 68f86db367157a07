package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/ocinote"
	"github.com/criadapter/criadapter/internal/testutil"
)

// A runtime must know the version of the specification that a note needs.
func TestVersionOfTheRuntime(t *testing.T) {
	for name, c := range map[string]struct{ features, needs, want string }{
		"nothing needed": {`exit 1`, "", ""},
		"new enough":     {`echo '{"ociVersionMax":"1.3.0"}'`, "1.3.0", ""},
		"a later one":    {`echo '{"ociVersionMax":"1.10.0"}'`, "1.3.0", ""},
		"too old":        {`echo '{"ociVersionMax":"1.0.2-dev"}'`, "1.1.0", "1.0.2-dev: install a newer one"},
		"no features":    {`echo unknown command >&2; exit 1`, "1.1.0", "exit status 1"},
		"garbage":        {`echo x`, "1.1.0", "invalid character"},
		"a build":        {`echo '{"ociVersionMax":"1.1.1+dev"}'`, "1.1.1", ""},
		"no version":     {`echo '{}'`, "1.1.0", `ociVersionMax: "" is not a version`},
		"no number":      {`echo '{"ociVersionMax":"1.x.0"}'`, "1.1.0", `"1.x.0" is not a version`},
		"two numbers":    {`echo '{"ociVersionMax":"1.1"}'`, "1.1.0", `"1.1" is not a version`},
	} {
		runtime := filepath.Join(t.TempDir(), "runc")
		script := "#!/bin/sh\n[ \"$1\" = --flag ] && [ \"$2\" = features ] || exit 9\n" + c.features + "\n"
		testutil.Must(t, os.WriteFile(runtime, []byte(script), 0o755))
		err := checkVersion(ocinote.Runtime{Path: runtime, Args: []string{"--flag"}}, os.Environ(), c.needs)
		if c.want == "" {
			testutil.Check(t, err, name)
			continue
		}
		testutil.Assert(t, err != nil && strings.Contains(err.Error(), c.want), "%s: %v, want %q", name, err, c.want)
	}
}

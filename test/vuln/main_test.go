package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/criadapter/criadapter/internal/testutil"
)

// TestLintChecksForVulnerabilities checks that a found vulnerability fails, and that the check is skipped in time and
// in one line if the database does not answer.
func TestLintChecksForVulnerabilities(t *testing.T) {
	database := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.URL.Path, "/silent"):
			<-r.Context().Done()
		case !strings.HasPrefix(r.URL.Path, "/good"):
			http.NotFound(w, r)
		}
	}))
	defer database.Close()
	for name, test := range map[string]struct {
		path, script  string
		says, refuses string
	}{
		"nothing found":          {path: "/good", script: "exit 0", says: "no known vulnerability"},
		"a vulnerability":        {path: "/good", script: "echo GO-2026-0001; exit 3", refuses: "GO-2026-0001"},
		"govulncheck fails":      {path: "/good", script: "echo no such package; exit 1", refuses: "no such package"},
		"it never ends":          {path: "/good", script: "exec sleep 1000", says: "not ended within"},
		"the database is silent": {path: "/silent", script: "exit 3", says: "database cannot be reached"},
		"the database is gone":   {path: "/gone", script: "exit 3", says: "404"},
	} {
		t.Run(name, func(t *testing.T) {
			var out testutil.Buffer
			c := checker{database: database.URL + test.path, out: &out, answerTime: 5 * time.Second,
				checkTime: time.Minute}
			switch name {
			case "the database is silent":
				c.answerTime = 100 * time.Millisecond
			case "it never ends":
				c.checkTime = 100 * time.Millisecond
			}
			c.command = func(ctx context.Context, _ string) *exec.Cmd {
				return exec.CommandContext(ctx, "sh", "-c", test.script)
			}
			err := c.check(t.Context())
			if test.refuses != "" {
				testutil.Assert(t, err != nil && strings.Contains(err.Error(), test.refuses),
					"got %v, want %q", err, test.refuses)
				return
			}
			text := out.String()
			testutil.Assert(t, err == nil && strings.Contains(text, test.says) && strings.Count(text, "\n") == 1,
				"got %v and %q, want one line with %q", err, text, test.says)
		})
	}
}

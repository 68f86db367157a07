package translate

import (
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestCheckHostname(t *testing.T) {
	for name, good := range map[string]bool{
		"": true, "web-0": true, "web_0.sub": true, "web-0.sub.default.svc.": true,
		".": false, "web..": false, ".web": false, "web-": false, "a b": false,
	} {
		err := checkHostname("config.hostname", name)
		testutil.Assert(t, (err == nil) == good, "%q: %v", name, err)
	}
	err := checkHostname("config.hostname", "a b")
	const allowed = "use letters, digits, hyphens, underscores and dots"
	testutil.Assert(t, err != nil && strings.HasSuffix(err.Error(), allowed), "got %v, want %q", err, allowed)
}

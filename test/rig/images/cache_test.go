package images

import (
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

// Images are made again after a change of any of the host's files in them.
func TestCacheKey(t *testing.T) {
	seen := map[string]bool{}
	for _, host := range [][][]entry{
		nil, {{file("bin/sh", 0o755, []byte("a"))}},
		{{file("bin/sh", 0o755, []byte("a"))}, {file("bin/curl", 0o755, []byte("a"))}},
		{{file("bin/sh", 0o755, []byte("a"))}, {file("bin/curl", 0o755, []byte("b"))}},
	} {
		key, err := ThisHost().cacheKey(t.Context(), host...)
		testutil.Must(t, err)
		testutil.Assert(t, !seen[key], "%v has the key of other files", host)
		seen[key] = true
	}
}

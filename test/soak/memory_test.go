package main

import (
	"os"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

// The limit is the same for the same seed, and always less than what is used.
func TestShortage(t *testing.T) {
	const used = 1000
	seen := map[int64]bool{}
	for seed := range uint64(500) {
		limit := shortage(seed, used)
		testutil.Assert(t, limit == shortage(seed, used) && limit >= used*shortLeast/100 && limit <= used*shortMost/100,
			"seed %d: %d of %d", seed, limit, used)
		seen[limit] = true
	}
	testutil.Assert(t, len(seen) > (shortMost-shortLeast)/2, "only %d limits", len(seen))
}

func TestOwnMemory(t *testing.T) {
	used, err := ownMemory(os.Getpid())
	testutil.Assert(t, err == nil && used > 1<<20 && used < 1<<30, "%d bytes, %v", used, err)
}

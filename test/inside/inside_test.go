package inside

import (
	"slices"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestDifferences(t *testing.T) {
	got := Differences("a 1\nb\nc\n", "a 12\na 1\nc\nd\n")
	testutil.Assert(t, slices.Equal(got, []string{"+ b", "- a 12", "- d"}), "differences %q", got)
}

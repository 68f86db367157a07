package rigenv

import (
	"regexp"
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestUnique(t *testing.T) {
	label := regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)
	for _, base := range []string{"web", "TestA/with space_and_more", strings.Repeat("long", 30)} {
		first, second := Unique(base), Unique(base)
		testutil.Assert(t, first != second && label.MatchString(first) && len(first) <= 63,
			"%q: %q and %q", base, first, second)
	}
}

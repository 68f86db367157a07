package rigenv

import (
	"slices"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestCapabilitiesOf(t *testing.T) {
	for status, want := range map[string][]string{
		"Name:\tx\nCapEff:\t000001ffffffffff\nSeccomp:\t0\n": {"CAP_SYS_RESOURCE"},
		"Name:\tx\nCapEff:\t000001fffeffffff\nSeccomp:\t0\n": nil,
		"CapEff:\tgarbage\n": nil,
		"":                   nil,
	} {
		got := CapabilitiesOf(status)
		testutil.Assert(t, slices.Equal(got, want), "%q: %v, want %v", status, got, want)
	}
}

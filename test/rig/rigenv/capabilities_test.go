package rigenv

import (
	"slices"
	"testing"
)

func TestCapabilitiesOf(t *testing.T) {
	for status, want := range map[string][]string{
		"Name:\tx\nCapEff:\t000001ffffffffff\nSeccomp:\t0\n": {"CAP_SYS_RESOURCE"},
		"Name:\tx\nCapEff:\t000001fffeffffff\nSeccomp:\t0\n": nil,
		"CapEff:\tgarbage\n": nil,
		"":                   nil,
	} {
		if got := CapabilitiesOf(status); !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", status, got, want)
		}
	}
}

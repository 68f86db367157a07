package migrate

import (
	"slices"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestParseResolvConf(t *testing.T) {
	got := parseResolvConf(
		"# of the cluster\nnameserver 10.0.0.10\nnameserver fd00::10\nsearch a.svc b\noptions ndots:5 " +
			"edns0\n\nnameserver\n")
	testutil.Assert(t, slices.Equal(got.GetServers(), []string{"10.0.0.10", "fd00::10"}) &&
		slices.Equal(got.GetSearches(), []string{"a.svc", "b"}) &&
		slices.Equal(got.GetOptions(), []string{"ndots:5", "edns0"}), "got %v", got)
	got = parseResolvConf("\n# nothing\n")
	testutil.Assert(t, got == nil, "got %v", got)
}

package kubelet

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/criadapter/criadapter/internal/testutil"
)

// TestAddressesFollowTheRoutes: a node whose network comes up late, or changes, gets its addresses. It keeps the last
// ones while there is no route.
func TestAddressesFollowTheRoutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var routes []string
		a := newNodeAddresses(nil)
		a.detect = func() []string { return routes }
		for _, step := range []struct{ routes, want []string }{
			{nil, []string{"127.0.0.1"}},
			{[]string{"192.0.2.1"}, []string{"192.0.2.1"}},
			{nil, []string{"192.0.2.1"}},
			{[]string{"192.0.2.2", "2001:db8::2"}, []string{"192.0.2.2", "2001:db8::2"}},
		} {
			routes = step.routes
			time.Sleep(addressAge)
			got := a.list()
			testutil.Assert(t, slices.Equal(got, step.want) && a.primary() == step.want[0], "with the routes of %v: %v",
				step.routes, got)
		}
		fixed := newNodeAddresses([]string{"198.51.100.1"})
		time.Sleep(addressAge)
		testutil.Equal(t, fixed.primary(), "198.51.100.1", "a configured address")
	})
}

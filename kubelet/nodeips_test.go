package kubelet

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/criadapter/criadapter/internal/testutil"
)

// TestAddressesFollowTheRoutes: a node whose network comes up late, or changes, gets its addresses. It keeps the last
// ones while there is no route. If only one family lacks a route, its address stays while an interface has the address.
func TestAddressesFollowTheRoutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var routes []string
		a := newNodeAddresses(nil)
		a.detect = func() []string { return routes }
		a.has = func(ip string) bool { return ip == "192.0.2.2" }
		for _, step := range []struct{ routes, want []string }{
			{nil, []string{"127.0.0.1"}},
			{[]string{"192.0.2.1"}, []string{"192.0.2.1"}},
			{nil, []string{"192.0.2.1"}},
			{[]string{"192.0.2.2", "2001:db8::2"}, []string{"192.0.2.2", "2001:db8::2"}},
			{[]string{"2001:db8::2"}, []string{"192.0.2.2", "2001:db8::2"}},
			{[]string{"192.0.2.2"}, []string{"192.0.2.2"}},
			{[]string{"192.0.2.3", "2001:db8::3"}, []string{"192.0.2.3", "2001:db8::3"}},
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

// TestOnInterface: the loopback address does not count, since it only stands for a missing network.
func TestOnInterface(t *testing.T) {
	for _, ip := range routeAddresses() {
		testutil.Assert(t, onInterface(ip), "the address %s of a default route is on no interface", ip)
	}
	testutil.Assert(t, !onInterface("127.0.0.1") && !onInterface("203.0.113.254"),
		"an address that the machine lacks counts")
}

package docker

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"

	"github.com/criadapter/criadapter/internal/testutil"
)

// TestAddressesHaveAnOrder uses a container with addresses on three networks.
func TestAddressesHaveAnOrder(t *testing.T) {
	on := func(priority int, v4, v6 string) *network.EndpointSettings {
		return &network.EndpointSettings{GwPriority: priority, IPAddress: netip.MustParseAddr(v4),
			GlobalIPv6Address: netip.MustParseAddr(v6)}
	}
	inspect := &container.InspectResponse{NetworkSettings: &container.NetworkSettings{
		Networks: map[string]*network.EndpointSettings{"b": on(0, "10.0.0.3", "fd00::3"), "none": {}, "nil": nil,
			"c": on(1, "10.0.0.1", "fd00::1"), "a": on(0, "10.0.0.2", "fd00::2")},
	}}
	want := []string{"10.0.0.1", "10.0.0.2", "10.0.0.3", "fd00::1", "fd00::2", "fd00::3"}
	for range 20 {
		got := Addresses(inspect)
		testutil.Require(t, slices.Equal(got, want), "got %v, want %v", got, want)
	}
	testutil.Assert(t, Addresses(&container.InspectResponse{}) == nil, "addresses without a network")
}

package docker

import (
	"cmp"
	"maps"
	"slices"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
)

// Addresses returns the IP addresses that the engine gave a container on its own networks, IPv4 before IPv6. Networks
// are sorted as the engine sorts them to choose the default gateway: by priority, then by name.
func Addresses(inspect *container.InspectResponse) []string {
	if inspect.NetworkSettings == nil {
		return nil
	}
	networks := maps.Clone(inspect.NetworkSettings.Networks)
	maps.DeleteFunc(networks, func(_ string, endpoint *network.EndpointSettings) bool { return endpoint == nil })
	names := slices.SortedFunc(maps.Keys(networks), func(a, b string) int {
		return cmp.Or(cmp.Compare(networks[b].GwPriority, networks[a].GwPriority), cmp.Compare(a, b))
	})
	var v4, v6 []string
	for _, name := range names {
		if address := networks[name].IPAddress; address.IsValid() {
			v4 = append(v4, address.String())
		}
		if address := networks[name].GlobalIPv6Address; address.IsValid() {
			v6 = append(v6, address.String())
		}
	}
	return append(v4, v6...)
}

package docker

import "github.com/moby/moby/api/types/container"

// Addresses returns the IP addresses that the engine gave a container on its
// own networks, IPv4 before IPv6.
func Addresses(inspect *container.InspectResponse) []string {
	if inspect.NetworkSettings == nil {
		return nil
	}
	var v4, v6 []string
	for _, endpoint := range inspect.NetworkSettings.Networks {
		if endpoint == nil {
			continue
		}
		if endpoint.IPAddress.IsValid() {
			v4 = append(v4, endpoint.IPAddress.String())
		}
		if endpoint.GlobalIPv6Address.IsValid() {
			v6 = append(v6, endpoint.GlobalIPv6Address.String())
		}
	}
	return append(v4, v6...)
}

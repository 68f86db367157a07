package netdevice

import "encoding/json"

// Network is a CNI network of pods on a bridge. The plugin host-local gives the addresses.
type Network struct {
	Name, Bridge string
	// Subnet is its IPv4 network in CIDR notation.
	Subnet string
	// Masquerade hides the pods' addresses from other networks.
	Masquerade bool
}

// Conflist returns the network's CNI configuration, with host ports. The plugin host-local keeps the addresses in use
// in the directory ipam. more has the types of further plugins.
func (n Network) Conflist(ipam string, more ...string) ([]byte, error) {
	bridge := map[string]any{
		"type": "bridge", "bridge": n.Bridge, "isGateway": true, "hairpinMode": true,
		"ipam": map[string]any{
			"type": "host-local", "dataDir": ipam,
			"ranges": [][]map[string]string{{{"subnet": n.Subnet}}},
			"routes": []map[string]string{{"dst": "0.0.0.0/0"}},
		},
	}
	if n.Masquerade {
		bridge["ipMasq"] = true
	}
	plugins := []any{bridge, map[string]any{"type": "portmap", "capabilities": map[string]bool{"portMappings": true}}}
	for _, plugin := range more {
		plugins = append(plugins, map[string]any{"type": plugin})
	}
	return json.MarshalIndent(map[string]any{"cniVersion": "1.0.0", "name": n.Name, "plugins": plugins}, "", "  ")
}

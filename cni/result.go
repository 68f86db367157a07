package cni

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"
)

// Result is the outcome of ADD.
type Result struct {
	// Config is the name of the network configuration that was used. Del needs it if the cache is lost.
	Config string
	// IPs are the pod's addresses in the order of the plugins' result, never empty. The first one is the primary
	// address. A dual-stack pod has one or more of each family.
	IPs []string
	// Raw is the whole result as JSON, with interfaces, routes and DNS. It has the form of version 1.1.0 of the
	// specification, even if the plugins use another version.
	Raw json.RawMessage
}

// newResult converts the result of the plugins. A result without an address is an error: the pod could never become
// ready.
func newResult(network string, from types.Result) (*Result, error) {
	current, err := types100.NewResultFromResult(from)
	if err != nil {
		return nil, fmt.Errorf("result of network %q: %w", network, err)
	}
	ips, err := podIPs(current)
	if err != nil {
		return nil, fmt.Errorf("result of network %q: %w", network, err)
	}
	raw, err := json.Marshal(current)
	if err != nil {
		return nil, fmt.Errorf("result of network %q: %w", network, err)
	}
	return &Result{Config: network, IPs: ips, Raw: raw}, nil
}

// podIPs returns the addresses of the pod's interface, and all addresses that name no interface, as in results before
// version 0.3.0. The pod's interface has the name interfaceName. The node may have an interface with the same name. If
// a plugin says which interface is in the pod's namespace, only that interface counts.
func podIPs(result *types100.Result) ([]string, error) {
	placed := slices.ContainsFunc(result.Interfaces, func(i *types100.Interface) bool {
		return i != nil && i.Name == interfaceName && i.Sandbox != ""
	})
	var ips []string
	for _, ip := range result.IPs {
		if ip == nil || len(ip.Address.IP) == 0 {
			return nil, fmt.Errorf("an entry of ips has no address")
		}
		if index := ip.Interface; index != nil {
			if *index < 0 || *index >= len(result.Interfaces) || result.Interfaces[*index] == nil {
				return nil, fmt.Errorf("address %s names interface %d of %d", ip.Address.IP, *index,
					len(result.Interfaces))
			}
			if i := result.Interfaces[*index]; i.Name != interfaceName || placed && i.Sandbox == "" {
				continue
			}
		}
		if text := ip.Address.IP.String(); !slices.Contains(ips, text) {
			ips = append(ips, text)
		}
	}
	if len(ips) == 0 {
		return nil, fmt.Errorf("no address for %s: check the ipam section of the configuration", interfaceName)
	}
	return ips, nil
}

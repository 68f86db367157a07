package model

import "strings"

// PodAddresses selects a pod's addresses from the addresses of its sandbox: the first one of each IP family. The family
// of the node's address comes first. A sandbox may have more addresses than the API accepts.
func PodAddresses(ips []string, node string) []string {
	var selected []string
	for _, six := range []bool{isIPv6(node), !isIPv6(node)} {
		for _, ip := range ips {
			if isIPv6(ip) == six {
				selected = append(selected, ip)
				break
			}
		}
	}
	return selected
}

func isIPv6(ip string) bool { return strings.Contains(ip, ":") }

package image

import (
	"strings"

	"github.com/distribution/reference"

	"github.com/criadapter/criadapter/image/registry"
)

// registryAddress is the address of a registry.
type registryAddress struct {
	// host is a name or address, as registry.CanonicalHost returns it.
	host string
	// port is empty for the default port of HTTPS, or of HTTP with that scheme.
	port string
}

// parseRegistry parses a registry's address from credentials or references: "host", "host:port/v2/",
// "https://host/v1/", "[::1]:5000".
func parseRegistry(address string) registryAddress {
	scheme, rest, found := strings.Cut(address, "://")
	if !found {
		scheme, rest = "", address
	}
	host, _, _ := strings.Cut(rest, "/")
	port := ""
	if colon := strings.LastIndexByte(host, ':'); colon > strings.LastIndexByte(host, ']') {
		host, port = host[:colon], host[colon+1:]
	}
	if port == "80" && strings.EqualFold(scheme, "http") || port == "443" && !strings.EqualFold(scheme, "http") {
		port = ""
	}
	return registryAddress{host: registry.CanonicalHost(host), port: port}
}

// serves reports whether an image is in the registry.
func (r registryAddress) serves(image reference.Named) bool {
	return r == parseRegistry(reference.Domain(image))
}

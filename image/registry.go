package image

import (
	"strings"

	"github.com/distribution/reference"
)

// dockerHub is the domain of references without one.
const dockerHub = "docker.io"

// registry is where a registry is to be found.
type registry struct {
	// host is a name or an address, in lower case; dockerHub for all names of
	// Docker's own registry.
	host string
	// port is empty for the default one of HTTPS, or of HTTP where that is the
	// scheme.
	port string
}

// parseRegistry reads a registry's address as it occurs in credentials and in
// references: "host", "host:port/v2/", "https://host/v1/", "[::1]:5000".
func parseRegistry(address string) registry {
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
	host = strings.ToLower(host)
	switch host {
	case "index." + dockerHub, "registry-1." + dockerHub, "registry.hub.docker.com":
		host = dockerHub
	}
	return registry{host: host, port: port}
}

// serves reports whether an image is in the registry.
func (r registry) serves(image reference.Named) bool {
	return r == parseRegistry(reference.Domain(image))
}

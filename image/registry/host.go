package registry

import "strings"

// DockerHub is the host of references that name no host.
const DockerHub = "docker.io"

// CanonicalHost returns the canonical spelling of a registry's host, which has no port. It is in lower case, and
// DockerHub for all names of Docker's own registry.
func CanonicalHost(host string) string {
	switch host = strings.ToLower(host); host {
	case "index.docker.io", "registry-1.docker.io", "registry.hub.docker.com":
		return DockerHub
	default:
		return host
	}
}

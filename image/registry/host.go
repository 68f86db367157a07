package registry

import "strings"

// DockerHub is the host of references that name no host.
const DockerHub = "docker.io"

// CanonicalHost returns the only spelling of a registry's host: in lower case, and DockerHub for all names of Docker's
// own registry. It keeps a port, so the caller removes the default port.
func CanonicalHost(host string) string {
	switch host = strings.ToLower(host); host {
	case "index.docker.io", "registry-1.docker.io", "registry.hub.docker.com":
		return DockerHub
	default:
		return host
	}
}

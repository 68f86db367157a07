// Package registry sends criadapter's own requests to registries: for signatures, and for artifacts that the engine
// refuses. The engine pulls everything else.
//
// A request uses HTTP without TLS only for a loopback address. It uses the certificates in /etc/docker/certs.d. Docker
// Engine does the same by default. No request uses the engine's mirrors or its list of insecure registries.
package registry

// Package registry sends criadapter's own requests to registries: for signatures, and for artifacts that the engine
// refuses. The engine pulls everything else.
//
// A request uses HTTP without TLS for a loopback address alone, and the certificates in /etc/docker/certs.d, as Docker
// Engine does by default. It uses neither the engine's mirrors nor its list of insecure registries.
package registry

// Package objects answers which config maps and secrets a pod sees. A static pod sees those of the manifests, a pod of
// the API server sees the server's: ByOrigin tells them apart.
package objects

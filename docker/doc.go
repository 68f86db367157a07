// Package docker is the client of Docker Engine. Outside of tests, only this package imports Docker's own client.
//
// Engine is the small set of calls that criadapter makes. Client implements it on a real Docker Engine 20.10 (API 1.41)
// or newer, and reconnects by itself. Package dockertest implements it in memory. Features has the abilities of the
// connected engine. Event has the same form for all versions of the engine.
//
// Every error has a type of github.com/containerd/errdefs, such as ErrNotFound, ErrConflict and ErrInvalidArgument.
// ErrUnavailable means that the engine is away. ErrFailedPrecondition means that the engine cannot run pods here.
// ErrNotImplemented means that the connected engine is too old for a field. ErrRegistryUnavailable and ErrMediaType are
// this package's own types. The type follows from the HTTP status of the engine's answer. Pulls are the exception,
// because 20.10 returns only the registry's text: see pullerrors.go.
//
// Files use each other in one direction. The calls (images.go, containers.go and others) use call.go, which uses
// connect.go. connect.go uses the files that look at an engine, and these use the types of engine.go and features.go.
// "Client" in daemonjson.go is net/http's, and in ociprobe.go the Docker client's, not this package's.
package docker

// Package docker is the client of Docker Engine, and the only importer of Docker's own client.
//
// Engine is the small, context-first set of calls that criadapter makes;
// Client implements it on a real Docker Engine (API 1.41, that is 20.10, and
// newer) and reconnects by itself; package dockertest implements it in memory.
// Features says what the connected engine can do, Event is the engine's event
// in one form whatever the engine's version.
//
// Every error is typed with github.com/containerd/errdefs: ErrNotFound,
// ErrConflict, ErrInvalidArgument, ErrUnavailable (the engine is away),
// ErrFailedPrecondition (the engine cannot run pods here), ErrNotImplemented
// (the connected engine is too old for a field), and so on;
// ErrRegistryUnavailable is this package's own. The type follows from the HTTP
// status of the engine's answer. The one exception are pulls, where 20.10 has
// nothing but the registry's words: see pullerrors.go.
//
// Files use each other in one direction. The calls (images.go, containers.go and others) use call.go, which uses
// connect.go. connect.go uses the files that look at an engine, and these use the types of engine.go and features.go.
// "Client" in daemonjson.go is net/http's, and in ociprobe.go the Docker client's, not this package's.
package docker

// Package rigenv gives a test what it needs to run for real: a Docker Engine of its own and the CNI plugins. A registry
// on 127.0.0.1 has images made on this machine. All of it is in a network namespace, where tests may break it.
//
// The program test/rig makes all this, describes it in an environment variable and runs the test binaries. This package
// reads the description. A test that needs the rig starts with
//
//	env := rigenv.Require(t)
//
// and runs under `make test` (or `go run ./test/rig test ./package`). Under a plain `go test` it is skipped with a
// message that says so. With CI=true it fails instead. Tests of one package share the engine with each other and with
// packages that run later: remove what you made, never prune, and never count what the engine holds in total. A test
// that wants to stop, restart or configure an engine starts its own with package test/rig/engine.
//
// # Images
//
// The registry at Env.Registry serves every image of images.Catalog (package test/rig/images) under its catalogue name:
// Env.Image("busybox:1.29") is pulled from 127.0.0.1:PORT/busybox:1.29. The same content is reachable in other ways, to
// see what a client does when a registry is in trouble:
//
//	Env.AuthRegistry/NAME         a second port with basic authentication: RegistryUser, RegistryPassword
//	Env.Registry/slow/NAME        blobs trickle: SlowPiece bytes, then SlowPause, again and again
//	Env.Registry/stalled/NAME     blobs begin and then never go on (until the client hangs up)
//	Env.Registry/corrupt/NAME     blobs arrive with the right length and one byte changed
//	Env.Registry/noblobs/NAME     manifests are there, blobs answer 404
//	Env.Registry/unavailable/NAME everything answers 503
//	Env.Registry/limited/NAME     everything answers 429, with a Retry-After of seconds
//	Env.Registry/forbidden/NAME   everything answers 403
//
// An engine does not fetch layers that it already has from another image. To be sure of trouble, take an engine of your
// own.
package rigenv

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// variable is the environment variable with the rig's description, an Env in JSON.
const variable = "CRIADAPTER_RIG"

// The account that the registry at Env.AuthRegistry accepts.
const (
	RegistryUser     = "rig"
	RegistryPassword = "rig-password"
)

// Repository prefixes of Env.Registry. Behind each, the registry serves the same images with one trouble, see the
// package comment.
const (
	PrefixSlow        = "slow"
	PrefixStalled     = "stalled"
	PrefixCorrupt     = "corrupt"
	PrefixNoBlobs     = "noblobs"
	PrefixUnavailable = "unavailable"
	PrefixLimited     = "limited"
	PrefixForbidden   = "forbidden"
)

// A blob under PrefixSlow comes in pieces of SlowPiece bytes with a SlowPause after each: it makes progress all the
// time, and a layer of 15 MiB takes three seconds. With smaller pieces, engines with the containerd image store would
// report no progress, because their containerd writes and counts one MiB at a time.
const (
	SlowPiece = 1 << 20
	SlowPause = 200 * time.Millisecond
)

// Kind says whose engine a test runs on.
type Kind string

const (
	// KindPrivate is an engine that the rig started for the tests alone, in a network namespace of its own.
	KindPrivate Kind = "private"
	// KindSystem is the engine that is installed on this machine, used as it is.
	KindSystem Kind = "system"
)

// Values of Env.Mode. With ModeOCI, a pod has a sandbox container only if it needs one. With ModeContainer, each pod
// has one.
const (
	ModeOCI       = "oci"
	ModeContainer = "container"
)

// Values of Env.Registration: how an engine finds the OCI runtime criadapter-oci. With RegistrationDaemonJSON its
// daemon.json names the program. With RegistrationShim, as in a default installation, containerd finds a shim's name on
// the engine's PATH; this needs Docker Engine 23.
const (
	RegistrationDaemonJSON = "daemon.json"
	RegistrationShim       = "shim"
)

// Env describes the rig that this test binary runs in. All paths are absolute.
type Env struct {
	// Kind says whose engine DockerHost is.
	Kind Kind
	// Engine is the engine's name, as package test/rig/engine knows it.
	Engine string
	// Mode says which kind of pods a test's server makes: ModeOCI, ModeContainer, or empty for the default of the
	// program.
	Mode string
	// Registration says how private engines know the OCI runtime: RegistrationShim, RegistrationDaemonJSON, or empty,
	// which means RegistrationDaemonJSON. A test that needs a certain registration sets it for an engine of its own.
	Registration string
	// DockerHost is the engine's address, unix:///….
	DockerHost string
	// DockerRoot is the engine's data root, visible to the tests under the path that the engine uses.
	DockerRoot string
	// Dockerd is the engine's program. RuntimeWrapper is the OCI runtime that this machine's engines need to start
	// privileged containers; empty where plain runc works. Package test/rig/engine uses both.
	Dockerd, RuntimeWrapper string
	// OCIRuntime is the program criadapter-oci, a runtime of the private engine. Links with its other names are beside
	// it and in ../libexec/criadapter, as in an installed package. Empty on the installed engine.
	OCIRuntime string
	// NegativeOOM says that a negative oom_score_adj takes effect in a container. It is false without CAP_SYS_RESOURCE.
	// The private engine then accepts a negative value and the container gets 0. The installed engine fails to start
	// the container.
	NegativeOOM bool
	// Registry is the host:port of the registry, always 127.0.0.1:PORT. Empty on the installed engine.
	Registry string
	// AuthRegistry is the host:port at which the same images are served to RegistryUser only. Empty on the installed
	// engine.
	AuthRegistry string
	// CNIBinDir holds the CNI plugins bridge, host-local, loopback and portmap.
	CNIBinDir string
	// Criadapter is the server's program, built without the race detector.
	Criadapter string
	// WorkDir is a scratch directory of this run, on a shared mount, removed after the run. Make a directory of your
	// own in it; use it instead of t.TempDir for what containers mount.
	WorkDir string
}

// Image returns the reference under which the private engine pulls the image of that catalogue name ("busybox:1.29").
func (e Env) Image(name string) string { return e.Registry + "/" + name }

// Cgroup is the name of the rig's own control group, which is in the root of every hierarchy. No other rig has cgroups
// below it. This rig removes them when it ends.
func (e Env) Cgroup() string { return filepath.Base(filepath.Dir(e.WorkDir)) }

// Require returns the private rig that this test binary runs in. Without one it skips the test, or fails it when
// CI=true is set.
func Require(t testing.TB) Env {
	t.Helper()
	return require(t, KindPrivate, "make test")
}

// RequireSystem returns the rig around the installed engine. A test that calls it must be named TestSystem…: the rig
// leaves such tests out on the private engine, and runs them and no others on the installed engine. Elsewhere
// RequireSystem skips the test, or fails it when CI=true is set.
func RequireSystem(t testing.TB) Env {
	t.Helper()
	return require(t, KindSystem, "make test HALF=system")
}

func require(t testing.TB, want Kind, command string) Env {
	t.Helper()
	env, err := FromEnviron(os.Getenv)
	if err == nil && env.Kind == want {
		return env
	}
	reason := fmt.Sprintf("needs the %s test rig; run: %s", want, command)
	if err != nil {
		reason += " (" + err.Error() + ")"
	}
	if os.Getenv("CI") == "true" {
		t.Fatal(reason)
	}
	t.Skip(reason)
	return Env{}
}

// FromEnviron reads the rig's description with getenv (os.Getenv). It fails if the description is missing or
// incomplete.
func FromEnviron(getenv func(string) string) (Env, error) {
	text := getenv(variable)
	if text == "" {
		return Env{}, fmt.Errorf("%s is not set: not started by test/rig", variable)
	}
	var env Env
	if err := json.Unmarshal([]byte(text), &env); err != nil {
		return Env{}, fmt.Errorf("%s: %w", variable, err)
	}
	if env.Kind == "" || env.DockerHost == "" || env.WorkDir == "" {
		return Env{}, fmt.Errorf("%s has no Kind, DockerHost or WorkDir", variable)
	}
	return env, nil
}

// Environ returns the description as NAME=value, for the environment of a test binary.
func (e Env) Environ() []string {
	text, err := json.Marshal(e)
	if err != nil {
		panic(err) // strings and a boolean can be encoded
	}
	return []string{variable + "=" + string(text)}
}

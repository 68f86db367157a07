package docker

import (
	"time"

	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"

	"github.com/criadapter/criadapter/internal/ocinote"
)

// session is one connection to one engine: a client with its negotiated API version, and the engine's features. It is
// immutable. A call that finds the engine away drops the whole session, because the engine may come back with another
// version.
type session struct {
	api      *client.Client
	features Features
	// engineID is the engine's own id.
	engineID string
	// notes is the directory of its containers' notes, even if notes are switched off.
	notes ocinote.Dir
	// shim says whether the engine's containerd finds the runtime by itself.
	shim bool
	// real is the runtime behind Features.OCIRuntime: the engine's default runtime.
	real ocinote.Runtime
	// runtimes are all runtimes of the engine, by name.
	runtimes map[string]system.RuntimeWithStatus
	// nextLook is the time of the next look at the engine, because its OCI runtime did not work. Zero means none.
	nextLook time.Time
}

// outdated reports whether the engine is due for another look.
func (s *session) outdated() bool { return !s.nextLook.IsZero() && time.Now().After(s.nextLook) }

// setRuntime writes the container's own runtime into the note of a new container. criadapter-oci calls that runtime.
func (s *session) setRuntime(note *ocinote.Note, spec ContainerSpec) (err error) {
	if spec.Host != nil && s.features.OwnShims[spec.Host.Runtime] != "" {
		note.Runtime = ocinote.Runtime{Shim: s.features.OwnShims[spec.Host.Runtime]}
		return nil
	}
	note.Runtime, err = s.realRuntime(spec)
	return err
}

// realRuntime returns the program of a container's runtime.
func (s *session) realRuntime(spec ContainerSpec) (ocinote.Runtime, error) {
	if spec.Host == nil || spec.Host.Runtime == "" || spec.Host.Runtime == s.features.DefaultRuntime {
		return s.real, nil
	}
	return realRuntime(s.runtimes, spec.Host.Runtime)
}

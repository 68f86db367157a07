package translate

import (
	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/internal/ocinote"
)

// extra has a container's settings beyond the Docker API: a note for the runtime criadapter-oci, which is in front of
// the engine's default runtime.
type extra struct {
	features docker.Features
	// runtime is the runtime that the container would have without a note.
	runtime string
	// held says that the container joins its pod, or its pod's sandbox, by a note. So it needs a note, and its runtime
	// can run behind criadapter-oci.
	held bool
	// note is nil as long as it would be empty.
	note *ocinote.Note
}

// blank returns an extra of the same container with nothing in it.
func (e *extra) blank() *extra {
	return &extra{features: e.features, runtime: e.runtime, held: e.held}
}

// offered reports whether the container can have a note. A container that joins its pod by a note can have it even
// while criadapter-oci has not been seen to work: without a note the container could not be made at all.
func (e *extra) offered() bool {
	r := e.features.OCIRuntime
	if e.features.OwnShims[e.runtime] != "" {
		return false // criadapter-oci cannot edit the processes of an exec under such a shim
	}
	return e.held && r.Name != "" ||
		r.Works() && (e.runtime == e.features.DefaultRuntime || e.features.RunsPodSandboxes(e.runtime))
}

// need returns the note for the request of a field, or refuses the field. what describes the request.
func (e *extra) need(field, what string) (*ocinote.Note, error) {
	if !e.offered() {
		if fault := e.features.OCIRuntime.Fault; fault != "" {
			return nil, unsupported(field,
				"%s needs the OCI runtime criadapter-oci, which does not work at the moment (see "+
					"docs/oci-runtime.md): %s", what, fault)
		}
		return nil, unsupported(field,
			"%s needs the OCI runtime criadapter-oci in front of the engine's default one (see docs/oci-runtime.md)",
			what)
	}
	if e.note == nil {
		e.note = &ocinote.Note{}
	}
	return e.note, nil
}

// join lets a container join a namespace by its path.
func (e *extra) join(field, kind, path string) error {
	note, err := e.need(field, "a container of a pod that has no sandbox container")
	if err != nil {
		return err
	}
	if note.Namespaces == nil {
		note.Namespaces = map[string]string{}
	}
	note.Namespaces[kind] = path
	return nil
}

// mountOptions adds options to the mount at target.
func (e *extra) mountOptions(field, target string, options ...string) error {
	note, err := e.need(field, "a mount with options that the Docker API has no field for")
	if err != nil {
		return err
	}
	if note.MountOptions == nil {
		note.MountOptions = map[string][]string{}
	}
	note.MountOptions[target] = append(note.MountOptions[target], options...)
	return nil
}

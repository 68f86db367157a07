package translate

import (
	"maps"
	"path"
	"slices"

	"github.com/moby/moby/api/types/container"

	"github.com/criadapter/criadapter/docker"
)

// apiAnnotations is the first API version with annotations for the OCI runtime.
const apiAnnotations = "1.43"

// runtimeAnnotations passes annotations of the pod and of the container to the OCI runtime. Only annotations that the
// node's administrator allows are passed, because some are orders for the runtime (org.systemd.property.*, run.oci.*).
// The container's value takes precedence over the pod's.
func runtimeAnnotations(in ContainerInput, host *container.HostConfig, more *extra) error {
	passed := map[string]string{}
	for _, from := range []struct {
		field       string
		annotations map[string]string
	}{
		{"sandbox_config.annotations", in.Sandbox.Config.GetAnnotations()},
		{"config.annotations", in.Config.GetAnnotations()},
	} {
		for _, key := range slices.Sorted(maps.Keys(from.annotations)) {
			if !matchesAny(in.RuntimeAnnotations, key) {
				continue
			}
			if err := canPass(from.field+"["+key+"]", in.Features, more); err != nil {
				return err
			}
			passed[key] = from.annotations[key]
		}
	}
	switch {
	case len(passed) == 0:
	case in.Features.Supports(apiAnnotations):
		host.Annotations = passed
	default:
		// Annotations that place the container in its pod's sandbox take precedence.
		maps.Copy(passed, more.note.Annotations)
		more.note.Annotations = passed
	}
	return nil
}

// canPass returns an error if neither the engine nor a note can pass an annotation.
func canPass(field string, f docker.Features, more *extra) error {
	if f.Supports(apiAnnotations) {
		return nil
	}
	_, err := more.need(field, "an annotation for the OCI runtime, below Docker Engine 24 (API "+apiAnnotations+"),")
	return err
}

// matchesAny reports whether a key matches one of patterns, see path.Match.
func matchesAny(patterns []string, key string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		matched, err := path.Match(pattern, key)
		return matched && err == nil
	})
}

package translate

import (
	"maps"
	"strings"
	"testing"

	"github.com/containerd/errdefs"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestRuntimeAnnotations(t *testing.T) {
	annotated := func(in ContainerInput) ContainerInput {
		in.Sandbox.Config.Annotations = map[string]string{"vendor.com/a": "pod", "vendor.com/b": "pod",
			"org.systemd.property.X": "1"}
		in.Config.Annotations = map[string]string{"vendor.com/a": "container", "vendor.com/deep/c": "no",
			"exact": "yes"}
		return in
	}
	patterns := []string{"vendor.com/*", "exact"}
	want := map[string]string{"vendor.com/a": "container", "vendor.com/b": "pod", "exact": "yes"}
	for name, c := range map[string]struct {
		in         ContainerInput
		host, note map[string]string
	}{
		"nothing is allowed":   {noted(annotated(containerInput())), nil, nil},
		"by the engine":        {annotated(containerInput()), want, nil},
		"on an older engine":   {noted(annotated(containerInput())), nil, want},
		"nothing is annotated": {noted(containerInput()), nil, nil},
	} {
		if name != "nothing is allowed" {
			c.in.RuntimeAnnotations = patterns
		}
		if c.host != nil {
			c.in.Features = newEngine()
		}
		spec := mustContainer(t, c.in)
		delete(spec.Host.Annotations, shimGroup)
		testutil.Assert(t, maps.Equal(spec.Host.Annotations, c.host),
			"%s: the engine passes %v, want %v", name, spec.Host.Annotations, c.host)
		if (spec.Note != nil) != (c.note != nil) || spec.Note != nil && !maps.Equal(spec.Note.Annotations, c.note) {
			t.Errorf("%s: the note is %+v, want %v", name, spec.Note, c.note)
		}
	}
	in := annotated(containerInput())
	in.RuntimeAnnotations = patterns
	if _, err := Container(in); !errdefs.IsNotImplemented(err) ||
		!strings.HasPrefix(err.Error(), "sandbox_config.annotations[vendor.com/a]: ") {
		t.Errorf("on an older engine without the runtime: %v", err)
	}
}

// A runtime that runs a pod in one sandbox finds the sandbox by annotations, which a pod must neither drop nor change.
func TestRuntimeAnnotationsKeepThePodSandbox(t *testing.T) {
	in := noted(containerInput())
	in.Features.PodSandboxRuntimes = []string{"runc"}
	in.RuntimeAnnotations = []string{"*/*"}
	in.Config.Annotations = map[string]string{"vendor.com/a": "1", annotationSandboxID: "another"}
	got := mustContainer(t, in).Note.Annotations
	want := map[string]string{"vendor.com/a": "1", annotationSandboxID: in.Sandbox.ID,
		annotationContainerType: "container"}
	testutil.Assert(t, maps.Equal(got, want), "the note has %v, want %v", got, want)
}

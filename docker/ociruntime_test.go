package docker

import (
	"context"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/system"

	"github.com/criadapter/criadapter/internal/ocinote"
	"github.com/criadapter/criadapter/internal/testutil"
)

func TestFindOCIRuntime(t *testing.T) {
	for name, c := range map[string]struct {
		fallback, runtimes string
		shim               bool
		found              OCIRuntime
		real               ocinote.Runtime
		err                string
	}{
		"none": {"runc", `{"runc": {"path": "runc"}}`, false, OCIRuntime{}, ocinote.Runtime{}, ""},
		"beside runc": {
			"runc", `{"runc": {"path": "runc"}, "mine": {"path": "/usr/bin/criadapter-oci"}}`, true,
			OCIRuntime{Name: "mine", Notes: ocinote.DefaultDir}, ocinote.Runtime{Path: "runc"}, "",
		},
		"with a directory": {
			"crun",
			`{"crun": {"path": "/opt/crun", "runtimeArgs": ["--debug"]}, "c": {"path": "criadapter-oci", ` +
				`"runtimeArgs": ["--criadapter-notes", "/n"]}}`, false,
			OCIRuntime{Name: "c", Notes: "/n"}, ocinote.Runtime{Path: "/opt/crun", Args: []string{"--debug"}}, "",
		},
		"with a directory in one word": {
			"runc",
			`{"runc": {"path": "runc"}, "c": {"path": "criadapter-oci", "runtimeArgs": ["--criadapter-notes=/n"]}}`,
			false,
			OCIRuntime{Name: "c", Notes: "/n"}, ocinote.Runtime{Path: "runc"}, "",
		},
		"a shim with a program": {
			"s",
			`{"s": {"runtimeType": "io.containerd.runc.v2", "options": {"BinaryName": "/opt/crun"}}, "c": ` +
				`{"path": "criadapter-oci"}}`, false,
			OCIRuntime{Name: "c", Notes: ocinote.DefaultDir}, ocinote.Runtime{Path: "/opt/crun"}, "",
		},
		"runc's shim, which is not listed": {
			"io.containerd.runc.v2", `{"c": {"path": "criadapter-oci"}}`, false,
			OCIRuntime{Name: "c", Notes: ocinote.DefaultDir}, ocinote.Runtime{Path: "runc"}, "",
		},
		"found by containerd": {
			"runc", `{"runc": {"path": "runc"}, "x": {"runtimeType": "io.containerd.criadapter.v2"}}`, true,
			OCIRuntime{Name: "io.containerd.criadapter.v2", Notes: ocinote.DefaultDir}, ocinote.Runtime{Path: "runc"},
			"",
		},
		"the default, by its shim": {
			"io.containerd.criadapter.v2", `{"runc": {"path": "runc"}}`, true,
			OCIRuntime{Name: "io.containerd.criadapter.v2", Notes: ocinote.DefaultDir}, ocinote.Runtime{}, "no program",
		},
		"another shim": {"kata", `{"kata": {"runtimeType": "io.containerd.kata.v2"}, "c": {"path": "criadapter-oci"}}`,
			false, OCIRuntime{Name: "c", Notes: ocinote.DefaultDir}, ocinote.Runtime{}, "no program"},
		"the default": {"c", `{"c": {"path": "criadapter-oci"}}`, false, OCIRuntime{}, ocinote.Runtime{},
			"default-runtime"},
	} {
		info := system.Info{DefaultRuntime: c.fallback}
		testutil.Must(t, json.Unmarshal([]byte(c.runtimes), &info.Runtimes))
		found, real, err := findOCIRuntime(info, c.shim)
		testutil.Assert(t, found == c.found && reflect.DeepEqual(real, c.real), "%s: found %+v, %+v", name, found, real)
		testutil.Assert(t, (err == nil) == (c.err == "") && (err == nil || strings.Contains(err.Error(), c.err)),
			"%s: %v, want %q", name, err, c.err)
		for _, other := range (facts{info: info}).features("1.41").Runtimes {
			testutil.Assert(t, other != found.Name && other != "x", "%s: pods may name the runtime %s", name, other)
		}
	}
}

func TestNoteNeedsTheRuntime(t *testing.T) {
	spec := ContainerSpec{Note: &ocinote.Note{}}
	testutil.Fails(t, CheckSpec(spec, Features{}), errdefs.IsNotImplemented, "without it")
	testutil.Check(t, CheckSpec(spec, Features{OCIRuntime: OCIRuntime{Name: "c"}}), "with it")
}

// TestMissingRuntimeThatIsRequired checks that an engine without the runtime is refused, even if the caller has just
// left.
func TestMissingRuntimeThatIsRequired(t *testing.T) {
	f := newFakeServer(t)
	c, err := Dial(Options{Host: "unix://" + f.socket, OCIRuntime: OCIRuntimeRequired})
	testutil.Must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	wantType(t, "Ping", c.Ping(testContext(t)), errdefs.ErrFailedPrecondition)
	api, err := c.newAPI()
	testutil.Must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	wantType(t, "a caller that has left", c.addOCIRuntime(ctx, &session{api: api}, facts{}),
		errdefs.ErrFailedPrecondition)
}

package fields

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/docker/translate"
	"github.com/criadapter/criadapter/internal/testutil"
)

// use changes a request to use a field in a way that some or all engines refuse.
type use struct {
	field string
	with  change
}

// refusal is a configuration that is refused. The error has the class and begins with the path.
type refusal struct {
	name, class, path string
	with              change
}

// The classes of refusals.
const (
	invalid     = "invalid"
	unsupported = "unsupported"
)

// class returns the type of an error as one word.
func class(err error) string {
	switch {
	case err == nil:
		return "ok"
	case errdefs.IsInvalidArgument(err):
		return invalid
	case errdefs.IsNotImplemented(err):
		return unsupported
	default:
		return "untyped"
	}
}

// TestSandboxRefusals translates each pod configuration that the table lists as refused.
func TestSandboxRefusals(t *testing.T) {
	for _, row := range table() {
		for _, tc := range row.pods {
			t.Run(tc.name, func(t *testing.T) { tc.check(t, row, translate.KindSandbox, (*request).run) })
		}
	}
}

// TestContainerRefusals translates each container configuration that the table lists as refused.
func TestContainerRefusals(t *testing.T) {
	for _, row := range table() {
		for _, tc := range row.containers {
			t.Run(tc.name, func(t *testing.T) { tc.check(t, row, translate.KindContainer, (*request).create) })
		}
	}
}

// check translates the configuration for the engine that refuses it, and for a newer one, which may accept it.
func (c refusal) check(t *testing.T, row row, kind translate.Kind, send func(*request) (docker.ContainerSpec, error)) {
	t.Helper()
	r := newRequest(usual())
	r.read = nil
	c.with(r)
	before := r.configs()
	spec, err := send(r)
	testutil.Assert(t, class(err) == c.class && strings.HasPrefix(err.Error(), c.path+": "),
		"got %v, want it to be %s and to begin with %s", err, c.class, c.path)
	testutil.Assert(t, spec.Config == nil && spec.Host == nil && spec.Name == "",
		"a refused configuration has a spec: %+v", spec)
	testutil.Assert(t, row.hasPath(c.path), "%s: the case is in the row of %v, which has no field of this path", c.path,
		row.fields)
	r.features = confined()
	spec, err = send(r)
	if err != nil && class(err) != invalid && class(err) != unsupported {
		t.Errorf("a newer engine refuses the configuration with an error of the class %s: %v", class(err), err)
	}
	if err == nil && translate.Identify(spec.Name, spec.Config.Labels) != kind {
		t.Errorf("on a newer engine %s is identified as %v", spec.Name,
			translate.Identify(spec.Name, spec.Config.Labels))
	}
	for i, now := range r.configs() {
		testutil.Assert(t, proto.Equal(before[i], now), "the client's request was changed to %v", now)
	}
}

// hasPath reports whether a path leads to one of the row's fields, or through it.
func (r row) hasPath(path string) bool {
	names := strings.Split(regexp.MustCompile(`\[[^\]]*\]`).ReplaceAllString(path, ""), ".")
	return slices.ContainsFunc(r.fields, func(field string) bool {
		_, name, _ := strings.Cut(field, ".")
		return slices.Contains(names, name)
	})
}

// TestRefusedUses sends a request with each use that a row refuses. For a field in abilities.go, the oldest engine must
// refuse the use and the newest must accept it.
func TestRefusedUses(t *testing.T) {
	testutil.Must(t, newRequest(oldest()).send(), "a request without refused fields")
	for _, row := range table() {
		tried := map[string]bool{}
		for _, use := range row.uses {
			t.Run(use.field, func(t *testing.T) { use.check(t) })
			tried[use.field] = true
			testutil.Assert(t, slices.Contains(row.fields, use.field),
				"%s: a use of %s is in the row of %v, which lacks the field", row.file, use.field, row.fields)
		}
		for _, field := range row.fields {
			if row.refuses != "" && !tried[field] {
				t.Errorf("%s: the row of %s has a text in refuses, but no example in uses", row.file, field)
			}
		}
	}
}

func (u use) check(t *testing.T) {
	t.Helper()
	old, recent := newRequest(oldest()), newRequest(newest())
	u.with(old)
	u.with(recent)
	wantRefusal(t, u.field, old.send())
	ability := abilityOf(u.field)
	if ability == nil {
		wantRefusal(t, u.field, recent.send())
		return
	}
	if err := recent.send(); err != nil || ability.has(oldest()) || !ability.has(newest()) {
		t.Errorf("abilities.go says that the field needs %s: the newest engine must have it, the oldest not; got %v",
			ability.needs, err)
	}
}

// wantRefusal checks that an error becomes codes.Unimplemented and begins with the path of the field.
func wantRefusal(t *testing.T, field string, err error) {
	t.Helper()
	_, name, _ := strings.Cut(field, ".")
	testutil.Assert(t, errdefs.IsNotImplemented(err) && refusedField(err) == name,
		"got %v, want an ErrNotImplemented that names %s", err, name)
}

// refusedField returns the last name of the path at the beginning of an error.
func refusedField(err error) string {
	path, _, _ := strings.Cut(err.Error(), ": ")
	path, _, _ = strings.Cut(path, "[cdi.k8s.io/") // the key of an annotation
	return path[strings.LastIndex(path, ".")+1:]
}

// TestNothingElseIsRefused sets every field of the pod and container configurations, one after the other. The table
// must have a row for each refused field.
func TestNothingElseIsRefused(t *testing.T) {
	r := newRequest(oldest())
	check := func(parent protoreflect.Message, field protoreflect.FieldDescriptor) {
		err := r.send()
		if !errdefs.IsNotImplemented(err) {
			return
		}
		for _, row := range table() {
			mayBe := row.is == refused || row.refuses != ""
			if mayBe &&
				slices.ContainsFunc(row.fields, func(known string) bool {
					return strings.HasSuffix(known, "."+refusedField(err))
				}) {
				return
			}
		}
		t.Errorf("%s.%s is refused and has no row: %v", parent.Descriptor().Name(), field.Name(), err)
	}
	tried := 0
	for _, config := range []protoreflect.Message{r.pod.ProtoReflect(), r.container.ProtoReflect()} {
		tried += setEach(config, check)
	}
	testutil.Assert(t, tried >= 100, "only %d fields were tried", tried)
}

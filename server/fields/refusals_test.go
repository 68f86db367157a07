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

// use is a request with a use of a field that some engines refuse, or all.
type use struct {
	field string
	with  change
}

// refusal is a configuration that is refused, by an error of a class that begins with a path.
type refusal struct {
	name, class, path string
	with              change
}

// The classes of refusals.
const (
	invalid     = "invalid"
	unsupported = "unsupported"
)

// class is the type of an error, in a word.
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

// TestSandboxRefusals translates each pod of the table that is refused.
func TestSandboxRefusals(t *testing.T) {
	for _, row := range table() {
		for _, tc := range row.pods {
			t.Run(tc.name, func(t *testing.T) { tc.check(t, row, translate.KindSandbox, (*request).run) })
		}
	}
}

// TestContainerRefusals translates each container of the table that is refused.
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
		"it is refused and has a spec: %+v", spec)
	testutil.Assert(t, row.hasPath(c.path), "%s: the case stands in the row of %v", c.path, row.fields)
	r.features = confined()
	spec, err = send(r)
	if err != nil && class(err) != invalid && class(err) != unsupported {
		t.Errorf("a newer engine refuses it by an error that is %s: %v", class(err), err)
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

// TestRefusedUses sends a request with each use that a row refuses. A row that says which engine accepts it is right
// about that, too.
func TestRefusedUses(t *testing.T) {
	testutil.Must(t, newRequest(oldest()).send(), "a request without refused fields")
	for _, row := range table() {
		tried := map[string]bool{}
		for _, use := range row.uses {
			t.Run(use.field, func(t *testing.T) { use.check(t) })
			tried[use.field] = true
			testutil.Assert(t, slices.Contains(row.fields, use.field),
				"%s: a use of %s stands in the row of %v", row.file, use.field, row.fields)
		}
		for _, field := range row.fields {
			if row.refuses != "" && !tried[field] {
				t.Errorf("%s: the row of %s refuses something, but has no such request in uses", row.file, field)
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
		t.Errorf("abilities.go says that it needs %s, and the newest engine has %v", ability.needs, err)
	}
}

// wantRefusal checks that an error is of the type of codes.Unimplemented and begins with the path of a field.
func wantRefusal(t *testing.T, field string, err error) {
	t.Helper()
	_, name, _ := strings.Cut(field, ".")
	testutil.Assert(t, errdefs.IsNotImplemented(err) && refusedField(err) == name,
		"got %v, want an ErrNotImplemented that names %s", err, name)
}

// refusedField is the name at the end of the path with which an error begins.
func refusedField(err error) string {
	path, _, _ := strings.Cut(err.Error(), ": ")
	path, _, _ = strings.Cut(path, "[cdi.k8s.io/") // the key of an annotation
	return path[strings.LastIndex(path, ".")+1:]
}

// TestNothingElseIsRefused sets every field of both configurations, one after the
// other, and finds whatever is refused in the table.
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

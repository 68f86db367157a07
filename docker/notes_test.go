package docker

import (
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/system"

	"github.com/criadapter/criadapter/internal/ocinote"
	"github.com/criadapter/criadapter/internal/testutil"
)

// For a container with a user namespace, saveNote adds the volumes that the engine makes for an image to the note's
// mapped mounts. It adds no other mount.
func TestVolumesOfAnImageAreMapped(t *testing.T) {
	id := strings.Repeat("0a", 32)
	f := newFakeServer(t)
	f.handle("GET /containers/"+id+"/json", answer(http.StatusOK, `{"Id": "x", "Mounts": [
		{"Type": "bind", "Destination": "/etc/hosts"}, {"Type": "volume", "Destination": "/var/lib/data"}, {"Type": "bind", "Destination": "/asked"}]}`))
	f.handle("DELETE /containers/"+id, answer(http.StatusNoContent, ""))
	s, err := f.dial(0).session(testContext(t))
	testutil.Must(t, err)
	own := *s
	own.features.OCIRuntime.Notes = ocinote.Dir(t.TempDir())
	note := ocinote.Note{Namespaces: map[string]string{"user": "/pin"}, MappedMounts: []string{"/asked"}}
	for user, want := range map[string][]string{"/pin": {"/asked", "/var/lib/data"}, "": {"/asked"}} {
		note.Namespaces = map[string]string{"user": user}
		testutil.Must(t, own.saveNote(testContext(t), id, note))
		if got, err := own.features.OCIRuntime.Notes.Load(id); err != nil || !slices.Equal(got.MappedMounts, want) {
			t.Errorf("with the user namespace %q: %q, %v", user, got.MappedMounts, err)
		}
	}
	note.Namespaces = map[string]string{"user": "/pin"}
	f.handle("GET /containers/"+id+"/json", answer(http.StatusInternalServerError, `{"message": "no disk"}`))
	err = own.saveNote(testContext(t), id, note)
	testutil.Assert(t, err != nil && strings.Contains(err.Error(), "no disk"), "after an error of the engine: %v", err)
}

// The note names the container's own runtime as the runtime behind criadapter-oci, even if it is not the engine's
// default.
func TestRuntimeBehindANote(t *testing.T) {
	p := newProbed(t)
	p.change(func() {
		p.info.DefaultRuntime = "crun"
		p.info.Runtimes["crun"] = system.RuntimeWithStatus{Runtime: system.Runtime{Path: "/opt/crun"}}
		p.info.Runtimes["kata"] = system.RuntimeWithStatus{Runtime: system.Runtime{Type: "io.containerd.kata.v2"}}
	})
	c := p.dialAuto()
	for runtime, want := range map[string]string{"": "/opt/crun", "crun": "/opt/crun", "runc": "runc"} {
		id, err := c.CreateContainer(testContext(t),
			ContainerSpec{Name: "x", Config: &container.Config{Image: "x"},
				Host: &container.HostConfig{Runtime: runtime}, Note: &ocinote.Note{}})
		testutil.Must(t, err)
		if note, err := p.notes.Load(id); err != nil || note.Runtime.Path != want {
			t.Errorf("the runtime %q: %+v, %v", runtime, note.Runtime, err)
		}
	}
	_, err := c.CreateContainer(testContext(t),
		ContainerSpec{Name: "x", Config: &container.Config{Image: "x"}, Host: &container.HostConfig{Runtime: "kata"},
			Note: &ocinote.Note{}})
	testutil.Assert(t, errdefs.IsFailedPrecondition(err) && strings.Contains(err.Error(), "kata"),
		"a runtime without a program: %v", err)
}

// newNotedClient returns a client and its directory of notes.
func newNotedClient(t *testing.T) (*Client, ocinote.Dir) {
	t.Helper()
	c := newFakeServer(t).dial(0)
	s, err := c.session(testContext(t))
	testutil.Must(t, err)
	own := *s
	own.notes = ocinote.Dir(t.TempDir())
	c.current.Store(&own)
	return c, own.notes
}

// LimitNote changes the limits of a note, and no other field.
func TestLimitsOfANote(t *testing.T) {
	id := strings.Repeat("0a", 32)
	c, notes := newNotedClient(t)
	limits := NoteLimits{HugepageLimits: map[string]uint64{"2MB": 1}, Unified: map[string]string{"memory.low": "2"}}
	for _, id := range []string{id, "name"} {
		old, err := c.LimitNote(testContext(t), id, limits)
		testutil.Assert(t, err == nil && old.Unified == nil, "%s without a note: %+v, %v", id, old, err)
	}
	note := ocinote.Note{Hostname: "a", Unified: map[string]string{"memory.low": "1"}}
	testutil.Must(t, notes.Save(id, note))
	old, err := c.LimitNote(testContext(t), id, limits)
	testutil.Assert(t, err == nil && old.Unified["memory.low"] == "1", "before it had %+v, %v", old, err)
	note.HugepageLimits, note.Unified = limits.HugepageLimits, limits.Unified
	got, err := notes.Load(id)
	testutil.Assert(t, err == nil && reflect.DeepEqual(got, note), "the note is %+v, %v", got, err)
}

// The adjustments of plugins become a part of the note, and the rest of the note stays.
func TestAdjustNote(t *testing.T) {
	id := strings.Repeat("0a", 32)
	c, notes := newNotedClient(t)
	adjustment := ocinote.Adjustment{Args: []string{"x"}}
	err := c.Adjust(testContext(t), id, adjustment)
	testutil.Assert(t, errdefs.IsNotImplemented(err) && strings.Contains(err.Error(), "criadapter-oci"),
		"a container without a note: %v", err)
	got, err := c.Adjustment(testContext(t), id)
	testutil.Assert(t, err == nil && got == nil, "a container without a note has %v, %v", got, err)
	testutil.Must(t, notes.Save(id, ocinote.Note{Hostname: "a"}))
	testutil.Must(t, c.Adjust(testContext(t), id, adjustment))
	got, err = c.Adjustment(testContext(t), id)
	testutil.Assert(t, err == nil && reflect.DeepEqual(*got, adjustment), "got %v, %v", got, err)
	note, err := notes.Load(id)
	testutil.Assert(t, err == nil && note.Hostname == "a", "the note is %+v, %v", note, err)
}

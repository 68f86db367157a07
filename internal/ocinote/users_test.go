package ocinote

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

// mappedNote is the note of a container in a user namespace.
func mappedNote(mounts ...string) Note {
	return Note{
		Namespaces:  map[string]string{"user": "/n/user"},
		UIDMappings: []IDMapping{{0, 65536, 65536}}, GIDMappings: []IDMapping{{5, 1, 1}, {0, 131072, 65536}},
		MappedMounts: mounts, Sysctls: map[string]string{"net.ipv4.ping_group_range": "0 65535"},
	}
}

const mappedSpec = `{
	"root": {"path": "rootfs", "readonly": true},
	"mounts": [
		{"destination": "/proc", "type": "proc", "source": "proc"},
		{"destination": "/data", "type": "bind", "source": "/srv", "options": ["rbind", "rslave"]},
		{"destination": "/loose", "source": "srv", "options": ["bind", "ro"]},
		{"destination": "/shared", "type": "bind", "source": "/srv", "options": ["rbind", "rshared"]}
	],
	"linux": {"sysctl": {"net.ipv4.ping_group_range": "0 2147483647", "kernel.sem": "1"}}
}`

func TestHostRoot(t *testing.T) {
	note := mappedNote()
	uid, gid, err := note.HostRoot()
	testutil.Assert(t, uid == 65536 && gid == 131072 && err == nil, "got %d, %d, %v", uid, gid, err)
	note.GIDMappings = note.GIDMappings[:1]
	if _, _, err := note.HostRoot(); err == nil {
		t.Error("a group 0 that is not mapped has an id on the node")
	}
	testutil.Equal(t, note.UserNamespace(), "/n/user", "the namespace")
}

func TestFiles(t *testing.T) {
	note := mappedNote("/data", "/loose")
	files, err := FilesOf([]byte(mappedSpec), "/b", note)
	readOnly := map[string]bool{"/data": false, "/loose": true}
	want := Files{Root: "/b/rootfs", Mounts: map[string]string{"/data": "/srv", "/loose": "/b/srv"}, ReadOnly: readOnly}
	testutil.Require(t, err == nil && reflect.DeepEqual(files, want), "got %+v, %v, want %+v", files, err, want)
	moved, err := MoveFiles([]byte(mappedSpec), Files{Root: "/r", Mounts: map[string]string{"/data": "/m/0"}})
	testutil.Must(t, err)
	again, err := FilesOf(moved, "/b", note)
	if want := (Files{Root: "/r", Mounts: map[string]string{"/data": "/m/0", "/loose": "/b/srv"},
		ReadOnly: readOnly}); err != nil || !reflect.DeepEqual(again, want) {
		t.Errorf("moved: %+v, %v, want %+v", again, err, want)
	}
	testutil.Assert(t, strings.Contains(string(moved), `"readonly":true`),
		"the root has lost its other fields: %s", moved)
}

func TestFilesThatCannotBeMapped(t *testing.T) {
	for want, c := range map[string]struct {
		spec string
		note Note
	}{
		"no mount at /nonesuch": {mappedSpec, mappedNote("/nonesuch")},
		"is not a bind mount":   {mappedSpec, mappedNote("/proc")},
		"is Bidirectional":      {mappedSpec, mappedNote("/shared")},
		"root has no path":      {`{}`, mappedNote()},
		"root is not an object": {`{"root": 1}`, mappedNote()},
		"unexpected EOF":        {`{`, mappedNote()},
		"mounts is not a list":  {`{"root": {"path": "/r"}, "mounts": 1}`, mappedNote("/x")},
	} {
		_, err := FilesOf([]byte(c.spec), "/b", c.note)
		testutil.Assert(t, err != nil && strings.Contains(err.Error(), want), "%v, want %q", err, want)
	}
	if _, err := MoveFiles([]byte(mappedSpec),
		Files{Root: "/r", Mounts: map[string]string{"/nonesuch": "/x"}}); err == nil {
		t.Error("MoveFiles set the source of a mount that does not exist")
	}
}

func TestSysctlsOfANote(t *testing.T) {
	for drop, want := range map[bool]string{
		false: `{"kernel.sem":"1","net.ipv4.ping_group_range":"0 65535"}`,
		true:  `{"net.ipv4.ping_group_range":"0 65535"}`,
	} {
		note := mappedNote()
		note.DropSysctls = drop
		edited, err := EditSpec([]byte(mappedSpec), note)
		var spec struct {
			Linux struct{ Sysctl json.RawMessage }
		}
		testutil.Assert(t, err == nil && json.Unmarshal(edited, &spec) == nil && string(spec.Linux.Sysctl) == want,
			"drop %t: %s, %v, want %s", drop, spec.Linux.Sysctl, err, want)
	}
}

// FuzzFiles moves the files of any configuration and moves them back: FilesOf returns the files given to MoveFiles.
func FuzzFiles(f *testing.F) {
	f.Add([]byte(mappedSpec), "/data")
	f.Add([]byte(`{"root":{"path":"/r"},"mounts":[{"destination":"","source":"x","type":"bind"}]}`), "")
	f.Fuzz(func(t *testing.T, config []byte, destination string) {
		note := mappedNote(destination)
		files, err := FilesOf(config, "/b", note)
		if err != nil {
			t.Skip("no such mount")
		}
		want := Files{Root: "/moved", Mounts: map[string]string{destination: "/m"}, ReadOnly: files.ReadOnly}
		moved, err := MoveFiles(config, want)
		testutil.Require(t, err == nil, "FilesOf accepts the configuration, but MoveFiles fails: %v", err)
		if got, err := FilesOf(moved, "/b", note); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("moved to %+v, %v", got, err)
		}
		back, err := MoveFiles(moved, files)
		testutil.Must(t, err)
		if got, err := FilesOf(back, "/b", note); err != nil || !reflect.DeepEqual(got, files) {
			t.Errorf("moved back: %+v, %v, want %+v", got, err, files)
		}
	})
}

// Engines since 25 use rro for a mount whose submounts are read-only as well.
func TestBindSourceReadOnly(t *testing.T) {
	for option, want := range map[string]bool{"ro": true, "rro": true, "rw": false} {
		mount := object{"type": "bind", "source": "/srv", "options": []any{"rbind", option}}
		source, readOnly, err := bindSource(mount)
		testutil.Assert(t, source == "/srv" && readOnly == want && err == nil,
			"%s: %s, %t, %v", option, source, readOnly, err)
	}
}

package ocinote

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

// engineSpec is an engine's configuration: the parts that notes change, and some parts that notes do not have.
const engineSpec = `{
	"ociVersion": "1.0.2-dev", "hostname": "0123456789ab", "domainname": "", "future": {"a": [1, 2.50, 12345678901234567890]},
	"hooks": {"prestart": [{"path": "/bin/engine"}]},
	"process": {
		"user": {"uid": 1000, "gid": 1000, "additionalGids": [1000, 27]}, "args": ["sh"], "env": ["PATH=/bin", "TERM=xterm"],
		"capabilities": {"bounding": ["CAP_CHOWN", "CAP_NET_RAW"], "permitted": ["CAP_CHOWN"], "inheritable": ["CAP_CHOWN"]},
		"rlimits": [{"type": "RLIMIT_NOFILE", "hard": 10, "soft": 5}]
	},
	"mounts": [{"destination": "/proc", "type": "proc"}, {"destination": "/data", "type": "bind", "source": "/srv", "options": ["rbind", "ro"]}],
	"linux": {
		"seccomp": {"defaultAction": "SCMP_ACT_ERRNO"},
		"sysctl": {"net.ipv4.ping_group_range": "0 2147483647"},
		"namespaces": [{"type": "mount"}, {"type": "network"}, {"type": "uts"}],
		"resources": {"devices": [{"allow": false, "access": "rwm"}], "memory": {"limit": 9223372036854775807}}
	}
}`

func TestEditSpec(t *testing.T) {
	groups := []uint32{7}
	for name, c := range map[string]struct {
		note Note
		// want are the parts that change, by their path.
		want map[string]string
	}{
		"nothing": {Note{}, nil},
		"namespaces": {
			Note{Namespaces: map[string]string{"network": "/n/net", "ipc": "/n/ipc"}},
			map[string]string{"linux.namespaces": `[{"type":"mount"},{"path":"/n/net","type":"network"},{"type":"uts"},{"path":"/n/ipc","type":"ipc"}]`},
		},
		"a user namespace": {
			Note{
				Namespaces:  map[string]string{"user": "/n/user"},
				UIDMappings: []IDMapping{{0, 65536, 65536}}, GIDMappings: []IDMapping{{0, 131072, 65536}},
			},
			map[string]string{
				"linux.namespaces":  `[{"type":"mount"},{"type":"network"},{"type":"uts"},{"path":"/n/user","type":"user"}]`,
				"linux.uidMappings": `[{"containerID":0,"hostID":65536,"size":65536}]`,
				"linux.gidMappings": `[{"containerID":0,"hostID":131072,"size":65536}]`,
			},
		},
		"the pod's name": {
			Note{Hostname: "web-0", DropSysctls: true},
			map[string]string{"hostname": `"web-0"`, "linux.sysctl": `null`},
		},
		"mounts": {
			Note{
				Mounts: []Mount{
					{Destination: "/dev/shm", Type: "bind", Source: "/run/shm", Options: []string{"bind"}},
					{Destination: "/proc", Type: "none"},
				},
				MountOptions: map[string][]string{"/data": {"rro"}},
			},
			map[string]string{"mounts": `[{"destination":"/proc","type":"none"},` +
				`{"destination":"/data","options":["rbind","ro","rro"],"source":"/srv","type":"bind"},` +
				`{"destination":"/dev/shm","options":["bind"],"source":"/run/shm","type":"bind"}]`},
		},
		"the process": {
			Note{Process: Process{Groups: &groups, Ambient: []string{"CAP_NET_RAW"}}},
			map[string]string{
				"process.user":                     `{"additionalGids":[1000,7],"gid":1000,"uid":1000}`,
				"process.capabilities.inheritable": `["CAP_CHOWN","CAP_NET_RAW"]`,
				"process.capabilities.permitted":   `["CAP_CHOWN","CAP_NET_RAW"]`,
				"process.capabilities.effective":   `["CAP_NET_RAW"]`,
				"process.capabilities.ambient":     `["CAP_NET_RAW"]`,
			},
		},
		"no groups": {Note{Process: Process{Groups: new([]uint32)}},
			map[string]string{"process.user": `{"additionalGids":[1000],"gid":1000,"uid":1000}`}},
		"more groups": {Note{Process: Process{AddGroups: []uint32{27, 8, 8}}},
			map[string]string{"process.user": `{"additionalGids":[1000,27,8],"gid":1000,"uid":1000}`}},
		"limits": {
			Note{Unified: map[string]string{"memory.high": "1000"}, HugepageLimits: map[string]uint64{"2MB": 4096}},
			map[string]string{
				"linux.resources.unified":        `{"memory.high":"1000"}`,
				"linux.resources.hugepageLimits": `[{"limit":4096,"pageSize":"2MB"}]`,
			},
		},
		"annotations": {Note{Annotations: map[string]string{"a": "b"}}, map[string]string{"annotations": `{"a":"b"}`}},
		"a device": {
			Note{Devices: []Device{
				{Path: "/dev/x", Type: "c", Major: 10, Minor: 200, Access: "rw", FileMode: new(uint32(0o660)),
					UID: new(uint32(0)), GID: new(uint32(5))},
				{Path: "/dev/its", Type: "p"},
			}},
			map[string]string{
				"linux.devices": `[{"fileMode":432,"gid":5,"major":10,"minor":200,"path":"/dev/x","type":"c","uid":0},` +
					`{"gid":1000,"major":0,"minor":0,"path":"/dev/its","type":"p","uid":1000}]`,
				"linux.resources.devices": `[{"access":"rwm","allow":false},{"access":"rw","allow":true,"major":10,"minor":200,"type":"c"}]`,
			},
		},
		"hooks": {
			Note{
				Hooks: map[string][]Hook{"prestart": {{Path: "/bin/a", Args: []string{"a", "b"}, Timeout: new(5)}},
					"poststop": {{Path: "/bin/c", Env: []string{"X=y"}}}}},
			map[string]string{"hooks": `{"poststop":[{"env":["X=y"],"path":"/bin/c"}],"prestart":[{"path":"/bin/engine"},{"args":["a","b"],"path":"/bin/a","timeout":5}]}`},
		},
		"a profile": {
			Note{Seccomp: map[string]json.RawMessage{"defaultErrnoRet": []byte("38")}},
			map[string]string{"linux.seccomp": `{"defaultAction":"SCMP_ACT_ERRNO","defaultErrnoRet":38}`},
		},
		"a class of cache": {Note{IntelRDT: []byte(`{"closID":"a"}`)},
			map[string]string{"linux.intelRdt": `{"closID":"a"}`}},
	} {
		t.Run(name, func(t *testing.T) {
			edited, err := EditSpec([]byte(engineSpec), c.note)
			testutil.Must(t, err)
			checkChanges(t, edited, c.want)
		})
	}
}

// checkChanges compares an edited configuration with engineSpec and the parts that change, by their path.
func checkChanges(t *testing.T, edited []byte, changes map[string]string) {
	t.Helper()
	got, want := flat(t, edited), flat(t, []byte(engineSpec))
	for path, text := range changes {
		want.put(path, text)
	}
	testutil.Assert(t, got.texts() == want.texts(), "got  %s\nwant %s", got.texts(), want.texts())
}

// tree is a JSON object to compare.
type tree object

func flat(t *testing.T, text []byte) tree {
	t.Helper()
	o, err := parse(text)
	testutil.Must(t, err)
	return tree(o)
}

// put sets the part at a path, and removes it for null.
func (o tree) put(path, text string) {
	at := map[string]any(o)
	names := strings.Split(path, ".")
	for _, name := range names[:len(names)-1] {
		at = at[name].(map[string]any)
	}
	last := names[len(names)-1]
	if text == "null" {
		delete(at, last)
		return
	}
	at[last] = json.RawMessage(text)
}

func (o tree) texts() string {
	text, _ := json.Marshal(o)
	return string(text)
}

func TestSpecThatCannotBeEdited(t *testing.T) {
	for name, c := range map[string]struct {
		spec string
		note Note
		want string
	}{
		"no JSON":       {`{`, Note{}, "OCI configuration: unexpected EOF"},
		"null":          {`null`, Note{}, "no object"},
		"more than one": {`{}{}`, Note{}, "text after the end"},
		"no list of namespaces": {`{"linux": {"namespaces": {}}}`, Note{Namespaces: map[string]string{"ipc": "/x"}},
			"namespaces is not a list"},
		"no linux":                      {`{"linux": 5}`, Note{}, "linux is not an object"},
		"a mount that is not an object": {`{"mounts": ["x"]}`, Note{}, "mounts[0] is not an object"},
		"a mount that is missing": {engineSpec, Note{MountOptions: map[string][]string{"/nonesuch": {"rro"}}},
			"no mount at /nonesuch"},
		"a missing profile": {`{"linux": {}}`, Note{Seccomp: map[string]json.RawMessage{"flags": []byte("[]")}},
			"linux.seccomp is missing"},
		"a capability too many": {engineSpec, Note{Process: Process{Ambient: []string{"CAP_SYS_ADMIN"}}},
			"bounding lacks CAP_SYS_ADMIN"},
	} {
		_, err := EditSpec([]byte(c.spec), c.note)
		testutil.Assert(t, err != nil && strings.Contains(err.Error(), c.want), "%s: %v, want %q", name, err, c.want)
	}
}

func TestEditProcess(t *testing.T) {
	edited, err := EditProcess(
		[]byte(`{"user": {"uid": 1, "gid": 9, "additionalGids": [1, 2]}, "args": ["id"], "terminal": true}`),
		Note{Process: Process{Groups: &[]uint32{9, 8}}, Hostname: "only the container's"})
	want := `{"args":["id"],"terminal":true,"user":{"additionalGids":[9,8],"gid":9,"uid":1}}`
	testutil.Assert(t, err == nil && string(edited) == want, "got %s, %v, want %s", edited, err, want)
	note := Note{Process: Process{AddGroups: []uint32{7}}, Plugins: &Adjustment{Process: ProcessAdjustment{
		Groups: []uint32{6}}}}
	edited = []byte(`{"user":{"additionalGids":[9]}}`)
	for range 2 { // without the engine, a command has the container's edited process
		edited, err = EditProcess(edited, note)
		testutil.Must(t, err)
		testutil.Equal(t, string(edited), `{"user":{"additionalGids":[9,7,6]}}`, "process")
	}
	if _, err := EditProcess([]byte(`[]`), Note{}); err == nil {
		t.Error("a list is taken for a process")
	}
}

// FuzzEditSpec applies any note to any configuration. The same edit again must change nothing. Parts that each edit
// appends are left out.
func FuzzEditSpec(f *testing.F) {
	f.Add([]byte(engineSpec), []byte(`{"hostname":"a","namespaces":{"ipc":"/x"},"process":{"groups":[1]}}`))
	f.Add([]byte(`{"user":{"gid":9},"process":{},"capabilities":{"bounding":["CAP_A"]}}`),
		[]byte(`{"process":{"groups":[1],"ambient":["CAP_A"]},"plugins":{"env":{"A":"b"}}}`))
	f.Add([]byte(`{"linux":{"devices":null}}`), []byte(`{"devices":[{"path":"/dev/x"}],"unified":{"a":"b"}}`))
	f.Fuzz(func(t *testing.T, config, encoded []byte) {
		var note Note
		if json.Unmarshal(encoded, &note) != nil {
			t.Skip("no note")
		}
		note.MountOptions, note.Devices, note.Hooks = nil, nil, nil // each edit appends these
		if a := note.Plugins; a != nil {
			a.Devices, a.Hooks, a.DeviceRules, a.Config, a.Process.Groups = nil, nil, nil, nil, nil
		}
		for name, edit := range map[string]func([]byte, Note) ([]byte, error){
			"configuration": EditSpec, "process": EditProcess,
		} {
			once, err := edit(config, note)
			if err != nil {
				continue // config is of the other kind, or neither
			}
			if twice, err := edit(once, note); err != nil || string(twice) != string(once) {
				t.Errorf("%s edited again: %s, %v\nbefore: %s", name, twice, err, once)
			}
		}
	})
}

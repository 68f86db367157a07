package ocinote

import (
	"encoding/json"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestAdjustment(t *testing.T) {
	mode := uint32(0o600)
	for name, c := range map[string]struct {
		adjustment Adjustment
		want       map[string]string
	}{
		"nothing": {Adjustment{}, nil},
		"mounts": {
			Adjustment{RemoveMounts: []string{"/data"}, Mounts: []Mount{{Destination: "/a/b", Source: "/s"},
				{Destination: "/a", Type: "tmpfs"}}},
			map[string]string{"mounts": `[{"destination":"/proc","type":"proc"},` +
				`{"destination":"/a","type":"tmpfs"},{"destination":"/a/b","source":"/s"}]`},
		},
		"a device": {
			Adjustment{
				Devices:     []Device{{Path: "/dev/x", Type: "c", Major: 1, Minor: 3, Access: "rw", FileMode: &mode}},
				DeviceRules: []json.RawMessage{json.RawMessage(`{"allow":true,"type":"b","access":"r"}`)},
			},
			map[string]string{
				"linux.devices": `[{"fileMode":384,"gid":1000,"major":1,"minor":3,"path":"/dev/x","type":"c",` +
					`"uid":1000}]`,
				"linux.resources.devices": `[{"access":"rwm","allow":false},` +
					`{"access":"rw","allow":true,"major":1,"minor":3,"type":"c"},` +
					`{"access":"r","allow":true,"type":"b"}]`,
			},
		},
		"namespaces": {
			Adjustment{RemoveNamespaces: []string{"uts"}, Namespaces: map[string]string{"network": "/n", "cgroup": ""}},
			map[string]string{
				"linux.namespaces": `[{"type":"mount"},{"path":"/n","type":"network"},{"type":"cgroup"}]`,
			},
		},
		"hooks": {
			Adjustment{Hooks: map[string][]Hook{"prestart": {{Path: "/bin/more"}}}},
			map[string]string{"hooks.prestart": `[{"path":"/bin/engine"},{"path":"/bin/more"}]`},
		},
		"patches": {
			Adjustment{Config: []json.RawMessage{
				json.RawMessage(`{"linux":{"seccomp":null,"sysctl":{"net.ipv4.ping_group_range":null,"a":"1"}},` +
					`"domainname":{"x":1}}`),
				json.RawMessage(`{"linux":{"seccomp":{"defaultAction":"A"},"resources":{"memory":{"swap":7}}},` +
					`"process":{"args":["x"]}}`),
			}},
			map[string]string{
				"linux.seccomp": `{"defaultAction":"A"}`, "linux.sysctl": `{"a":"1"}`, "process.args": `["x"]`,
				"linux.resources.memory": `{"limit":9223372036854775807,"swap":7}`, "domainname": `{"x":1}`,
			},
		},
		"the process": {
			Adjustment{Process: ProcessAdjustment{
				Patch:     json.RawMessage(`{"oomScoreAdj":-5}`),
				RemoveEnv: []string{"TERM"}, Env: []string{"PATH=/x", "B=2"},
				Rlimits: []Rlimit{{"RLIMIT_NOFILE", 20, 15}, {"RLIMIT_CORE", 0, 0}}, Groups: []uint32{9},
			}},
			map[string]string{
				"process.env": `["PATH=/x","B=2"]`, "process.oomScoreAdj": "-5",
				"process.rlimits": `[{"hard":20,"soft":15,"type":"RLIMIT_NOFILE"},` +
					`{"hard":0,"soft":0,"type":"RLIMIT_CORE"}]`,
				"process.user": `{"additionalGids":[1000,27,9],"gid":1000,"uid":1000}`,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			edited, err := EditSpec([]byte(engineSpec), Note{Plugins: &c.adjustment})
			testutil.Must(t, err)
			checkChanges(t, edited, c.want)
		})
	}
}

// A plugin's patch of linux.intelRdt keeps the class of a CDI device (RFC 7396).
func TestAdjustmentOfACDIDevice(t *testing.T) {
	edited, err := EditSpec([]byte(engineSpec), Note{IntelRDT: []byte(`{"closID":"a"}`), Plugins: &Adjustment{
		Config: []json.RawMessage{json.RawMessage(`{"linux":{"intelRdt":{"enableMonitoring":true}}}`)}}})
	testutil.Must(t, err)
	checkChanges(t, edited, map[string]string{"linux.intelRdt": `{"closID":"a","enableMonitoring":true}`})
}

// A command in the container has the plugins' variables and limits.
func TestAdjustedCommand(t *testing.T) {
	note := Note{Plugins: &Adjustment{Process: ProcessAdjustment{Env: []string{"A=1"},
		Rlimits: []Rlimit{{"RLIMIT_CORE", 1, 1}}}, Config: []json.RawMessage{json.RawMessage(`{"hostname":"x"}`)}}}
	edited, err := EditProcess([]byte(`{"args":["ls"],"env":["A=0","B=0"]}`), note)
	testutil.Must(t, err)
	testutil.Equal(t, string(edited),
		`{"args":["ls"],"env":["B=0","A=1"],"rlimits":[{"hard":1,"soft":1,"type":"RLIMIT_CORE"}]}`, "process")
}

func TestAdjustmentOfAWrongForm(t *testing.T) {
	for name, a := range map[string]Adjustment{
		"a patch that is a list": {Config: []json.RawMessage{json.RawMessage(`[]`)}},
		"a device rule":          {DeviceRules: []json.RawMessage{json.RawMessage(`7`)}},
		"a patch of the process": {Process: ProcessAdjustment{Patch: json.RawMessage(`"x"`)}},
	} {
		_, err := EditSpec([]byte(engineSpec), Note{Plugins: &a})
		testutil.Assert(t, err != nil, "%s is accepted", name)
	}
}

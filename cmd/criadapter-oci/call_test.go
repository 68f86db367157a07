package main

import (
	"reflect"
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/ocinote"
	"github.com/criadapter/criadapter/internal/testutil"
)

func TestParseCall(t *testing.T) {
	for line, want := range map[string]call{
		"": {},
		"--root /r --log /l --log-format json create --bundle /b --pid-file /p ID": {
			verb: "create", container: "ID", root: "/r", log: "/l", bundle: "/b", pidFile: "/p",
		},
		"--log=/l -systemd-cgroup create -b /b --no-pivot --console-socket /c ID": {
			verb: "create", container: "ID", log: "/l", bundle: "/b", systemd: true,
		},
		"--root /r exec --process /p --detach --pid-file /q ID": {
			verb: "exec", container: "ID", root: "/r", process: "/p", pidFile: "/q",
		},
		"exec -t ID sh -b /x --process y": {verb: "exec", container: "ID"},
		"kill --pid 7 ID 9":               {verb: "kill", container: "ID"},
		"port-forward --stream /s ID 80":  {verb: "port-forward", container: "ID"},
		"--log /l delete --force ID":      {verb: "delete", container: "ID", log: "/l"},
		"--log /l kill ID 9":              {verb: "kill", container: "ID", log: "/l"},
		"--systemd-cgroup=false features": {verb: "features"},
		"--version":                       {},
		"--root":                          {},
	} {
		args := strings.Fields(line)
		want.args, want.notes = args, ocinote.DefaultDir
		if len(args) == 0 {
			want.args = nil
		}
		got := parseCall(args)
		if len(got.args) == 0 {
			got.args, want.args = nil, nil
		}
		testutil.Assert(t, reflect.DeepEqual(got, want), "%s:\ngot  %+v\nwant %+v", line, got, want)
		for _, own := range [][]string{{"--criadapter-notes", "/n"}, {"--criadapter-notes=/n"}} {
			got, want := parseCall(append(own, args...)), want
			want.notes = "/n"
			if len(got.args) == 0 {
				got.args = nil
			}
			testutil.Assert(t, reflect.DeepEqual(got, want), "%s %s:\ngot  %+v\nwant %+v", own, line, got, want)
		}
	}
}

// FuzzParseCall checks that the real runtime gets all arguments of any command line except this program's own flag.
func FuzzParseCall(f *testing.F) {
	f.Add("--criadapter-notes\x00/n\x00--log\x00/l\x00create\x00ID")
	f.Fuzz(func(t *testing.T, line string) {
		args := strings.Split(line, "\x00")
		c := parseCall(args)
		rest := args[len(args)-len(c.args):]
		testutil.Assert(t, reflect.DeepEqual(append([]string{}, c.args...), append([]string{}, rest...)),
			"%q becomes %q", args, c.args)
	})
}

package main

import (
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestParseCall(t *testing.T) {
	tests := []struct {
		line string
		want call
	}{
		{"--root /r --log /l --log-format json create --bundle /b --pid-file /p id", call{"create", "/b", ""}},
		{"--root=/r --systemd-cgroup run -b /b id", call{"run", "/b", ""}},
		{"--log create --debug create --bundle=/b id", call{"create", "/b", ""}},
		{"create id", call{"create", ".", ""}},
		{"--root /r exec --process /p.json --detach --pid-file /p id", call{"exec", ".", "/p.json"}},
		{"exec -p=/p.json id", call{"exec", ".", "/p.json"}},
		{"exec id true", call{"exec", ".", ""}},
		{"--version", call{"", ".", ""}},
		{"--root", call{"", ".", ""}},
		{"", call{"", ".", ""}},
	}
	for _, test := range tests {
		testutil.Equal(t, parseCall(strings.Fields(test.line)), test.want, "%s", test.line)
	}
}

func FuzzParseCall(f *testing.F) {
	f.Add("--root /r --log /l create --bundle /b id")
	f.Add("exec --process")
	f.Add("- -- --= =")
	f.Fuzz(func(t *testing.T, line string) {
		args := strings.Fields(line)
		if c := parseCall(args); c.command != "" &&
			(strings.HasPrefix(c.command, "-") || !strings.Contains(line, c.command)) {
			t.Errorf("%q is taken for the command of %q", c.command, line)
		}
	})
}

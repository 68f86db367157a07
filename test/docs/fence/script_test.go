package fence

import (
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestLines(t *testing.T) {
	got := Lines("# only a comment\n\na --b \\\n  c  # until Ctrl-C\nd '#e'\n")
	want := []Line{{"a --b    c", "until Ctrl-C"}, {"d '#e'", ""}}
	testutil.Assert(t, slices.Equal(got, want), "%q, want %q", got, want)
}

// TestScript runs scripts as a suite does.
func TestScript(t *testing.T) {
	// A shell makes its background programs ignore SIGINT, and their children inherit that. With a handler here, the
	// children of this test do not ignore it.
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt)
	defer signal.Stop(interrupts)
	for name, c := range map[string]struct {
		commands, want string
		fails          bool
	}{
		"in order":                  {commands: "x=1\ncat dir/a.yaml\necho $x", want: "a: 'b'\n1\n"},
		"a failure ends the script": {commands: "false\necho on", fails: true},
		"a failure in a pipe":       {commands: "false | true", fails: true},
		"a command that serves": {commands: "sh -c 'trap \"exit 0\" INT; touch up; while :; do sleep 0.1; done'  " +
			"# until Ctrl-C\nls up", want: "up\n"},
		// A subshell of bash that has just begun may lose an interrupt. The file up shows that the command runs.
		"an interrupted command": {commands: "touch up; exec sleep 300 # until Ctrl-C\nls up", want: "up\n"},
		"a command that ends": {commands: "until test -e end; do sleep 0.1; done # until Ctrl-C\ntouch end\n" +
			"! kill -0 ${serving[0]}"},
		"a command that fails": {commands: "sh -c 'exit 7' # until Ctrl-C\n! kill -0 ${serving[0]}", fails: true},
		"a line that is repeated": {commands: "sh -c 'sleep 1; touch late; exec sleep 300' # until Ctrl-C\nls late",
			want: "late\n"},
	} {
		t.Run(name, func(t *testing.T) {
			blocks := []Block{{Kind: Tree, Text: c.commands}, {Kind: YAMLFile, Note: "dir/a.yaml", Text: "a: 'b'\n"},
				{Kind: Machine, Text: "exit 9\n"}}
			script, ran := Script(blocks, Tree)
			testutil.Require(t, ran == 1, "%d blocks", ran)
			command := exec.CommandContext(t.Context(), "bash", "-c", script)
			command.Dir = t.TempDir()
			var errors strings.Builder
			command.Stderr = &errors
			output, err := command.Output()
			testutil.Assert(t, (err != nil) == c.fails && string(output) == c.want,
				"%v: %q, want %q\n%s", err, output, c.want, errors.String())
		})
	}
	script, ran := Script([]Block{{Kind: Text, Text: "x"}}, Tree)
	testutil.Assert(t, script == "" && ran == 0, "a script without commands: %q", script)
}

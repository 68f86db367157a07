package main

import (
	"cmp"
	"slices"
	"strings"

	"github.com/criadapter/criadapter/internal/ocinote"
)

// call is the command line of an OCI runtime, as the engine's shim writes it.
type call struct {
	notes ocinote.Dir
	// args are the arguments for the real runtime.
	args []string
	verb string
	// container is the id, the first argument of the verb that is not a flag.
	container string
	// root, log, bundle, process and pidFile are the values of --root, --log, --bundle, --process and --pid-file.
	root, log, bundle, process, pidFile string
	// systemd says whether --systemd-cgroup is given.
	systemd bool
	// ociVersion is the version of the specification that the note needs, empty for any.
	ociVersion string
}

// createVerbs are the verbs that make a container. runc also accepts their flags after the id.
var createVerbs = []string{"create", "run", "restore"}

// passed are the verbs of runc, crun and runsc that need no note.
var passed = []string{
	"start", "kill", "delete", "state", "ps", "list", "events", "pause", "resume", "update", "checkpoint", "features",
	"mounts", "spec", "help", "h", "port-forward",
}

// parseCall reads a runtime's command line. It assumes that an unknown flag has no value. If an unknown flag before the
// verb has a value, parseCall takes that value for the verb. prepare refuses it.
func parseCall(args []string) call {
	c := call{notes: ocinote.DefaultDir, args: slices.Clone(args)}
	takesValue := globalValued
	for i := 0; i < len(args); i++ {
		name, value, isFlag, width := readFlag(args[i:], takesValue)
		switch {
		case args[i] == "--":
		case !isFlag && c.verb == "":
			c.verb, takesValue = args[i], valued[args[i]]
		case !isFlag && c.verb == "mounts" && (args[i] == "add" || args[i] == "remove"): // crun's subcommands
		case !isFlag:
			c.container = cmp.Or(c.container, args[i])
			if !c.makes() {
				return c // a command with flags of its own may follow
			}
		case name == ocinote.DirFlag && i == 0:
			c.notes = ocinote.Dir(value)
			c.args = slices.Clone(args[width:])
		default:
			c.set(name, value)
		}
		i += width - 1
	}
	return c
}

// makes reports whether the call makes a container.
func (c *call) makes() bool { return slices.Contains(createVerbs, c.verb) }

func (c *call) set(name, value string) {
	switch name {
	case "root":
		c.root = value
	case "log":
		c.log = value
	case "bundle", "b":
		c.bundle = value
	case "process", "p":
		c.process = value
	case "pid-file":
		c.pidFile = value
	case "systemd-cgroup":
		c.systemd = value != "false"
	}
}

// readFlag reads the flag at the beginning of args: -name value, --name value or --name=value. width is the number of
// arguments that the flag and its value take.
func readFlag(args []string, takesValue map[string]bool) (name, value string, isFlag bool, width int) {
	text := args[0]
	if !strings.HasPrefix(text, "-") || text == "-" {
		return "", "", false, 1
	}
	name, value, given := strings.Cut(strings.TrimLeft(text, "-"), "=")
	if given || !takesValue[name] || len(args) == 1 {
		return name, value, true, 1
	}
	return name, args[1], true, 2
}

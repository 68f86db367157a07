package main

import (
	"slices"
	"strings"

	"github.com/criadapter/criadapter/internal/ocinote"
)

// call is what the engine's shim asks an OCI runtime for.
type call struct {
	notes ocinote.Dir
	// args are the arguments for the real runtime.
	args []string
	verb string
	// container is the id, the first argument of the verb that is no flag.
	container string
	// log, bundle and process are the values of --log, --bundle and --process.
	log, bundle, process string
	// systemd says whether --systemd-cgroup is given.
	systemd bool
}

// valued are the flags of runc, and of those who have its command line, that take a
// value: before the verb, and behind it.
var (
	valuedGlobal = []string{ocinote.DirFlag, "root", "log", "log-format", "log-level", "criu", "rootless", "cgroup-manager"}
	valued       = []string{
		"bundle", "b", "console-socket", "pidfd-socket", "pid-file", "preserve-fds", "process", "p", "cwd", "env", "e", "user", "u",
		"additional-gids", "g", "process-label", "apparmor", "cap", "c", "cgroup", "image-path", "work-path", "manage-cgroups-mode",
		"empty-ns", "lsm-profile", "lsm-mount-context", "file", "f", "config",
	}
)

// passed are the verbs of runc and crun that no note is about.
var passed = []string{
	"start", "kill", "delete", "state", "ps", "list", "events", "pause", "resume", "update", "checkpoint", "features", "mounts", "spec", "help", "h",
}

// parseCall reads a runtime's command line. A flag that it does not know passes: see
// prepare for what it takes for the verb when that flag has a value.
func parseCall(args []string) call {
	c := call{notes: ocinote.DefaultDir, args: slices.Clone(args)}
	for i := 0; i < len(args); i++ {
		name, value, isFlag, width := readFlag(args[i:], c.verb == "")
		switch {
		case !isFlag && c.verb == "":
			c.verb = args[i]
		case !isFlag:
			c.container = args[i]
			return c // behind it may be a command with flags of its own
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

func (c *call) set(name, value string) {
	switch name {
	case "log":
		c.log = value
	case "bundle", "b":
		c.bundle = value
	case "process", "p":
		c.process = value
	case "systemd-cgroup":
		c.systemd = value != "false"
	}
}

// readFlag reads the flag at the beginning of args: -name value, --name value or
// --name=value. width is how many arguments it takes.
func readFlag(args []string, global bool) (name, value string, isFlag bool, width int) {
	text := args[0]
	if !strings.HasPrefix(text, "-") || text == "-" || text == "--" {
		return "", "", false, 1
	}
	name, value, given := strings.Cut(strings.TrimLeft(text, "-"), "=")
	flags := valued
	if global {
		flags = valuedGlobal
	}
	if given || !slices.Contains(flags, name) || len(args) == 1 {
		return name, value, true, 1
	}
	return name, args[1], true, 2
}

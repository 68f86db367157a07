package main

import "strings"

// call is the part of a runc command line that ociwrap needs.
type call struct {
	command string // create, run, exec, …; empty without a command
	bundle  string // create, run: the bundle's directory
	process string // exec: the file with the process to start, empty when the command line describes it
}

// globalFlags are runc's options before the command that take a value as the next argument.
var globalFlags = map[string]bool{
	"--root": true, "--log": true, "--log-format": true, "--criu": true, "--rootless": true,
}

// parseCall reads a runc command line (without the program's name).
func parseCall(args []string) call {
	c := call{bundle: "."}
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		skip := 1
		if globalFlags[normalise(args[0])] && len(args) > 1 {
			skip = 2
		}
		args = args[skip:]
	}
	if len(args) == 0 {
		return c
	}
	c.command, args = args[0], args[1:]
	for i, arg := range args {
		name, value, joined := strings.Cut(arg, "=")
		if !joined && i+1 < len(args) {
			value = args[i+1]
		}
		switch normalise(name) {
		case "--bundle", "--b":
			c.bundle = value
		case "--process", "--p":
			c.process = value
		}
	}
	return c
}

// normalise writes an option with two dashes: runc's parser accepts one or two.
func normalise(flag string) string {
	if strings.HasPrefix(flag, "-") && !strings.HasPrefix(flag, "--") {
		return "-" + flag
	}
	return flag
}

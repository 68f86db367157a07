package ociexec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

// object is a JSON object whose unknown fields survive.
type object map[string]any

// has reports whether the field is a text that is not empty.
func (o object) has(name string) bool {
	text, ok := o[name].(string)
	return ok && text != ""
}

// Command is a command to run in a container.
type Command struct {
	Args []string
	// Terminal says that the command gets a terminal, and no pipes.
	Terminal bool
}

// readProcess reads the process of a container's configuration. criadapter-oci has put the note's edits into it.
func readProcess(path string) (object, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, unsuitable("%w", err)
	}
	var config struct {
		Process object `json:"process"`
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber() // limits exceed a float's precision
	if err := decoder.Decode(&config); err != nil {
		return nil, unsuitable("%s: %w", path, err)
	}
	if config.Process == nil {
		return nil, unsuitable("%s has no process", path)
	}
	return config.Process, nil
}

// spec returns the OCI process of a command: the container's own process with another command line. As with the engine,
// it runs in the container's working directory, and TERM is xterm if the command has a terminal.
func (c *Container) spec(command Command) ([]byte, error) {
	process := object{}
	maps.Copy(process, c.process)
	environ, err := terminalEnviron(process, command.Terminal)
	if err != nil {
		return nil, err
	}
	delete(process, "consoleSize")
	delete(process, "commandLine")
	process["args"], process["env"], process["terminal"] = command.Args, environ, command.Terminal
	process["rlimits"], err = addLimits(process["rlimits"], c.limits)
	if err != nil {
		return nil, err
	}
	return json.Marshal(process)
}

// engineTerm is the variable that the engine sets for a terminal, unless the container's own environment has TERM.
const engineTerm = "TERM=xterm"

// terminalEnviron returns the environment of a command with or without a terminal. The engine's own variables come
// first: PATH, HOSTNAME and, for a terminal, TERM. In a container with a terminal, TERM=xterm may be the engine's or
// the container's own. A command without a terminal then needs the engine.
func terminalEnviron(process object, terminal bool) ([]string, error) {
	var environ []string
	list, _ := process["env"].([]any)
	for _, variable := range list {
		environ = append(environ, fmt.Sprint(variable))
	}
	own := process["terminal"] == true
	switch {
	case own == terminal:
		return environ, nil
	case own:
		if slices.Contains(environ, engineTerm) {
			return nil, unsuitable("the container has a terminal and the command has none")
		}
		return environ, nil
	case slices.ContainsFunc(environ, func(v string) bool { return strings.HasPrefix(v, "TERM=") }):
		return environ, nil
	}
	return slices.Insert(environ, min(2, len(environ)), engineTerm), nil
}

// addLimits adds the inherited limits that the container's configuration does not set.
func addLimits(own any, inherited []limit) ([]any, error) {
	limits, ok := own.([]any)
	if !ok && own != nil {
		return nil, unsuitable("process.rlimits is not a list")
	}
	limits = slices.Clone(limits)
	for _, add := range inherited {
		set := slices.ContainsFunc(limits, func(l any) bool {
			fields, ok := l.(map[string]any)
			return ok && fields["type"] == add.Type
		})
		if !set {
			limits = append(limits, add)
		}
	}
	return limits, nil
}

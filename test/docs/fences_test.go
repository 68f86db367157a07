package docs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/criadapter/criadapter/cmd/criadapter/command"
	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/docs/fence"
)

// TestFences checks every fenced block. The shell can parse its commands, and their flags, commands and targets exist.
// YAML and JSON are valid. Package fence has the kinds of blocks.
func TestFences(t *testing.T) {
	commands := 0
	for _, document := range documents(t) {
		for _, block := range document.Blocks {
			if err := checkBlock(block); err != nil {
				t.Errorf("%s:%d: %v", document.Path, block.Line, err)
			}
			if block.Commands() {
				commands++
			}
		}
	}
	testutil.Assert(t, commands >= 10, "only %d blocks of commands were read", commands)
}

func checkBlock(block fence.Block) error {
	if err := checkSockets(block.Text); err != nil {
		return err
	}
	switch block.Kind {
	case fence.Machine, fence.Tree, fence.Elsewhere:
		return checkCommands(block.Text)
	case fence.CI:
		return errors.Join(checkCommands(block.Text), checkCI(block.Text))
	case fence.YAML, fence.YAMLFile:
		return checkYAML(block.Text)
	case fence.JSON, fence.JSONFile:
		if !json.Valid([]byte(block.Text)) {
			return fmt.Errorf("not JSON:\n%s", block.Text)
		}
	}
	return nil
}

// checkCommands parses the lines with a shell, and checks the commands of this tree's programs and make.
func checkCommands(text string) error {
	shell := exec.Command("bash", "-n")
	shell.Stdin = strings.NewReader(text)
	if out, err := shell.CombinedOutput(); err != nil {
		return fmt.Errorf("bash -n: %w\n%s", err, out)
	}
	var lines strings.Builder
	for _, line := range fence.Lines(text) {
		lines.WriteString(line.Command + "\n")
	}
	for _, line := range strings.FieldsFunc(lines.String(),
		func(r rune) bool { return strings.ContainsRune("\n|;&", r) }) {
		words := strings.Fields(line)
		for len(words) > 0 && (words[0] == "sudo" || strings.Contains(words[0], "=")) {
			words = words[1:]
		}
		if len(words) == 0 {
			continue
		}
		if err := checkCommand(filepath.Base(words[0]), words[1:]); err != nil {
			return fmt.Errorf("%s: %w", strings.TrimSpace(line), err)
		}
	}
	return nil
}

// checkCommand checks a command of this tree's programs or make, and accepts all other commands.
func checkCommand(program string, args []string) error {
	switch program {
	case "criadapter", "cri-dockerd":
		return checkArguments(command.Root(command.Options{Version: "test"}), args)
	case "kubelet-core":
		sources := []string{"cmd/kubelet-core/command/*.go", "cmd/kubelet-core/client/*.go", "kubelet/*.go"}
		return checkNamed(sources, args)
	case "make":
		return checkTargets(args)
	}
	return nil
}

// checkArguments checks a command line of criadapter with its tree of commands and flags.
func checkArguments(root *cobra.Command, args []string) error {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	found, rest, err := root.Find(args)
	if err != nil {
		return err
	}
	found.InitDefaultHelpFlag()
	found.InitDefaultVersionFlag()
	for _, arg := range rest {
		if arg == "…" {
			continue
		}
		name, isFlag := strings.CutPrefix(arg, "--")
		name, _, _ = strings.Cut(name, "=")
		if isFlag && found.Flags().Lookup(name) == nil && found.InheritedFlags().Lookup(name) == nil {
			return fmt.Errorf("there is no flag --%s", name)
		}
	}
	return nil
}

// checkNamed checks that a program's sources have the command and the flags as strings.
func checkNamed(patterns, args []string) error {
	var sources bytes.Buffer
	for _, pattern := range patterns {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return fmt.Errorf("%s: %w", pattern, err)
		}
		if len(files) == 0 {
			return fmt.Errorf("no sources in %s", pattern)
		}
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			sources.Write(content)
		}
	}
	for i, arg := range args {
		name, isFlag := strings.CutPrefix(arg, "--")
		name, _, _ = strings.Cut(name, "=")
		if isFlag && !bytes.Contains(sources.Bytes(), []byte(`"`+name+`"`)) {
			return fmt.Errorf("there is no flag --%s", name)
		}
		if i == 0 && !isFlag && !regexp.MustCompile(`Use: +"`+regexp.QuoteMeta(name)+`[" ]`).Match(sources.Bytes()) {
			return fmt.Errorf("there is no command %s", name)
		}
	}
	return nil
}

// checkTargets checks that the Makefile has the targets.
func checkTargets(args []string) error {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		return err
	}
	var targets []string
	for _, m := range regexp.MustCompile(`(?m)^([a-z0-9-]+):`).FindAllSubmatch(makefile, -1) {
		targets = append(targets, string(m[1]))
	}
	for _, arg := range args {
		if !strings.Contains(arg, "=") && !slices.Contains(targets, arg) {
			return fmt.Errorf("there is no target %s", arg)
		}
	}
	return nil
}

// TestCheckCommands tries checkCommands with good lines and with bad ones.
func TestCheckCommands(t *testing.T) {
	for line, want := range map[string]string{
		"sudo criadapter --network-plugin bridge --log-level=debug": "",
		"criadapter --no-such-flag":                                 "--no-such-flag",
		"A=b build/criadapter --netwok-plugin bridge":               "--netwok-plugin",
		"make build && make nonsense":                               "nonsense",
		"make run ONCE=1":                                           "",
		"kubelet-core get pods -w":                                  "",
		"kubelet-core run --manifest-dir x":                         "--manifest-dir",
		"kubelet-core fly":                                          "fly",
		"for x in 1 2; do":                                          "bash -n",
		"ls --whatever":                                             "",
		"cri-dockerd --network-plugin= --hairpin-mode=none":         "",
	} {
		err := checkCommands(line)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", line, err, want)
		}
	}
}

package docs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/criadapter/criadapter/cmd/criadapter/command"
	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/docs/fence"
)

// elsewhere lists the first lines of the blocks that no suite runs. The reason is after the fence of each block.
var elsewhere = []string{
	"docs/k3s.md: curl -sfL https://get.k3s.io | sh -s - --container-runtime-endpoint " +
		"unix:///run/criadapter/criadapter.sock",
	"docs/kubeadm.md: sudo kubeadm init --cri-socket unix:///run/criadapter/criadapter.sock --pod-network-cidr " +
		"10.244.0.0/16",
	"docs/kubelet-core.md: make e2e",
	"docs/minikube.md: sudo minikube start --driver none --container-runtime docker",
	"docs/minikube.md: minikube start --driver docker --container-runtime docker",
	"docs/quick-start.md: tar --extract --gzip --file criadapter_*_linux_amd64.tar.gz",
	"docs/reports/benchmark.md: make bench",
	"docs/reports/oci-suites.md: make oci-suite",
	"docs/reports/conformance.md: make conformance FAST=1",
	"docs/reports/faults.md: make chaos RUN=EngineAnswersBadly CHURN=60m",
	"docs/reports/faults.md: make soak HOURS=0.5",
	"docs/reports/faults.md: make fuzz FUZZTIME=10m RESUME=1",
	"docs/reports/load.md: make load",
	"docs/reports/scale.md: make bench PARTS=scale",
}

// TestElsewhere compares the list with the documents. A new block that runs nowhere must be added to the list.
func TestElsewhere(t *testing.T) {
	left := slices.Clone(elsewhere)
	for _, document := range documents(t) {
		for _, block := range document.Blocks {
			if block.Kind != fence.Elsewhere {
				continue
			}
			name := document.Path + ": " + fence.Lines(block.Text)[0].Command
			if i := slices.Index(left, name); i >= 0 {
				left = slices.Delete(left, i, i+1)
			} else {
				t.Errorf("%s:%d: %q is not in the list elsewhere", document.Path, block.Line, name)
			}
		}
	}
	testutil.Assert(t, len(left) <= 0, "no document has these blocks of the list elsewhere: %q", left)
}

// TestSpans checks this tree's commands in code spans like commands in blocks, because no suite runs them.
func TestSpans(t *testing.T) {
	span := regexp.MustCompile("`((?:sudo )?(?:criadapter|kubelet-core|cri-dockerd|make) [^`]+)`")
	found := 0
	for _, document := range documents(t) {
		for _, m := range span.FindAllStringSubmatch(document.Content, -1) {
			found++
			testutil.Check(t, checkCommands(strings.ReplaceAll(m[1], "\n", " ")), document.Path)
		}
	}
	testutil.Assert(t, found >= 20, "only %d commands were read", found)
}

// checkCI checks that .ci/run has a command for each line of the block: the same target, with at least the variables of
// the line. Values may differ.
func checkCI(text string) error {
	script, err := os.ReadFile(filepath.Join(root, ".ci", "run"))
	if err != nil {
		return err
	}
	var errs []error
	for _, line := range fence.Lines(text) {
		runs := func(ran fence.Line) bool { return covers(ran.Command, line.Command) }
		if !slices.ContainsFunc(fence.Lines(string(script)), runs) {
			errs = append(errs, fmt.Errorf(".ci/run does not run %q", line.Command))
		}
	}
	return errors.Join(errs...)
}

// covers says whether ran, a command of .ci/run, has the target of line and all its variables, with any values.
func covers(ran, line string) bool {
	has, wants := strings.Fields(strings.TrimPrefix(ran, "twice ")), strings.Fields(line)
	if len(wants) < 2 || len(has) < len(wants) || !slices.Equal(has[:2], wants[:2]) || has[0] != "make" {
		return false
	}
	for _, want := range wants[2:] {
		name, _, _ := strings.Cut(want, "=")
		if !slices.ContainsFunc(has[2:], func(word string) bool { return strings.HasPrefix(word, name+"=") }) {
			return false
		}
	}
	return true
}

var (
	unixSocket = regexp.MustCompile(`unix://(/[a-z/.-]*cri[a-z-]*\.sock)`)
	listens    = regexp.MustCompile(`(?m)^ListenStream=(.*)$`)
)

// checkSockets checks that an installed unit listens on each CRI socket that a block names.
func checkSockets(text string) error {
	var known []string
	for _, unit := range []string{"contrib/systemd/criadapter.socket", "packaging/cri-docker/cri-docker.socket"} {
		content, err := os.ReadFile(filepath.Join(root, unit))
		if err != nil {
			return err
		}
		for _, m := range listens.FindAllSubmatch(content, -1) {
			known = append(known, string(m[1]))
		}
	}
	for _, m := range unixSocket.FindAllStringSubmatch(text, -1) {
		if !slices.Contains(known, strings.Replace(m[1], "/var/run/", "/run/", 1)) {
			return fmt.Errorf("no unit listens on %s, but on %q", m[1], known)
		}
	}
	return nil
}

// checkYAML has the program validate a text without apiVersion, because that is criadapter's configuration.
func checkYAML(text string) error {
	var value map[string]any
	if err := yaml.Unmarshal([]byte(text), &value); err != nil || value["apiVersion"] != nil {
		return err
	}
	file, err := os.CreateTemp("", "criadapter-document-*.yaml")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	_, err = file.WriteString(text)
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	var output strings.Builder
	program := command.Root(command.Options{Version: "test"})
	program.SetArgs([]string{"config", "validate", "--config", file.Name()})
	program.SetOut(&output)
	program.SetErr(&output)
	if err := program.Execute(); err != nil {
		return fmt.Errorf("not a configuration of criadapter: %w\n%s", err, output.String())
	}
	return nil
}

// TestChecks tries each check with good texts and with bad ones.
func TestChecks(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		want string
	}{
		{"sockets of the units", checkSockets(
			"--cri-socket unix:///run/criadapter/criadapter.sock unix:///var/run/cri-dockerd.sock"), ""},
		{"another socket", checkSockets("--cri-socket unix:///run/criadapter.sock"), "no unit listens"},
		{"a line of CI", checkCI("make lint # all\nmake critest\nmake test ENGINE=x"), ""},
		{"no line of CI", checkCI("make test\nmake fuzz"), `"make fuzz"`},
		{"make without a target", checkCI("make"), `"make"`},
		{"with another variable", checkCI("make critest RUN=x"), "make critest RUN=x"},
		{"a configuration", checkYAML("network-plugin: bridge\n"), ""},
		{"a wrong key", checkYAML("netwok-plugin: bridge\n"), "netwok-plugin"},
		{"another program's", checkYAML("apiVersion: v1\nnetwok-plugin: bridge\n"), ""},
	} {
		if c.want == "" && c.err != nil || c.want != "" && (c.err == nil || !strings.Contains(c.err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.name, c.err, c.want)
		}
	}
}

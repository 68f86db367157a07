package command

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/criadapter/criadapter/internal/testutil"
)

// execute runs the command line with these arguments and returns its output.
func execute(t *testing.T, serve func(context.Context, Settings) error, args ...string) (string, error) {
	t.Helper()
	if serve == nil {
		serve = func(context.Context, Settings) error { t.Errorf("%q serves", args); return nil }
	}
	var output bytes.Buffer
	cmd := Root(Options{Version: "v1.2.3", Serve: serve})
	cmd.SetOut(&output)
	cmd.SetErr(&output)
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(t.Context())
	return output.String(), err
}

func TestBuildInfo(t *testing.T) {
	output, err := execute(t, nil, "--buildinfo")
	testutil.Assert(t, err == nil && strings.HasPrefix(output, "criadapter v1.2.3\n"), "got %q, %v", output, err)
}

// Without a command the program serves, as it did before there were commands.
func TestServesWithoutACommand(t *testing.T) {
	ended := errors.New("served")
	var got Settings
	serve := func(_ context.Context, settings Settings) error { got = settings; return ended }
	_, err := execute(t, serve, "--log-level=debug", "--root-directory", "/r", "--pod-cidr=10.1.0.0/16")
	testutil.Require(t, errors.Is(err, ended), "%v", err)
	testutil.Assert(t, got.Config.LogLevel == "debug" && got.Config.RootDirectory == "/r" && len(got.Idle) == 1,
		"served with %+v", got)
}

func TestRefusals(t *testing.T) {
	for want, args := range map[string][]string{
		"--log-level":                {"--log-level=loud"},
		"unknown flag":               {"--no-such-flag"},
		`unknown command "serve"`:    {"serve"},
		"\n\nDid you mean this?\n\t": {"versoin"},
	} {
		_, err := execute(t, nil, args...)
		testutil.Assert(t, err != nil && strings.Contains(err.Error(), want), "%q: %v, want %q", args, err, want)
	}
}

// The server's start and config validate refuse the same values.
func TestValidateIsTheStart(t *testing.T) {
	for _, flag := range []string{"--cri-metrics=nonsense", "--metrics-bind-addr=0.0.0.0:9092",
		"--streaming-bind-addr=0.0.0.0:10010", "--pod-infra-container-image=BAD NAME",
		"--docker-endpoint=tcp://192.0.2.1:2375", "--log-level=loud"} {
		_, start := execute(t, nil, flag)
		_, validate := execute(t, nil, "config", "validate", flag)
		name, _, _ := strings.Cut(flag, "=")
		testutil.Assert(t, start != nil && validate != nil && start.Error() == validate.Error() &&
			strings.Contains(start.Error(), name), "%s: the start says %v, config validate %v", flag, start, validate)
	}
}

// TestHelp holds each command to a short help with an example.
func TestHelp(t *testing.T) {
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		switch {
		case cmd.Short == "" || strings.HasSuffix(cmd.Short, "."):
			t.Errorf("%s: the short help is %q", cmd.CommandPath(), cmd.Short)
		case cmd.Runnable() && cmd.Example == "":
			t.Errorf("%s has no example", cmd.CommandPath())
		}
		for line := range strings.SplitSeq(cmd.Long+"\n"+cmd.Example, "\n") {
			testutil.Assert(t, len(line) <= 100,
				"%s: a line of the help is wider than a terminal: %s", cmd.CommandPath(), line)
		}
		for _, child := range cmd.Commands() {
			check(child)
		}
	}
	check(Root(Options{Version: "v1"}))
}

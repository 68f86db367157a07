// Command differences runs the tests of test/kubelet on one or several runtimes, and prints a table of the outcomes. On
// criadapter all tests must pass. On another runtime a test may fail or be skipped if a file lists it with its cause.
// Other differences are errors. With CI=true, a listed difference that does not exist is an error, too.
//
//	go run ./test/kubelet/differences [-runtimes criadapter,containerd] [-run pattern]
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"github.com/criadapter/criadapter/test/program"
)

func main() {
	runtimes := flag.String("runtimes", "criadapter,containerd", "the runtimes, separated by commas")
	pattern := flag.String("run", "", "run only tests that match this `pattern`, as go test -run")
	file := flag.String("list", "test/kubelet/differences.yaml", "the `file` of expected differences")
	flag.Parse()
	program.Main("differences", func(ctx context.Context) error {
		return run(ctx, strings.Split(*runtimes, ","), *pattern, *file)
	})
}

func run(ctx context.Context, runtimes []string, pattern, file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	listed, err := parseList(text)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	t := newTable(runtimes)
	err = program.InDir(func(dir string) error {
		rig, err := program.BuildRig(ctx, dir)
		if err != nil {
			return err
		}
		for _, runtime := range runtimes {
			fmt.Printf("On %s:\n", runtime)
			output, err := runTests(ctx, rig, runtime, pattern)
			if err != nil {
				return fmt.Errorf("on %s: %w", runtime, err)
			}
			t.add(runtime, output)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return t.judge(os.Stdout, listed, pattern == "", os.Getenv("CI") == "true")
}

// runTests returns the output of the tests, and also shows it. Failed tests are not errors.
func runTests(ctx context.Context, rig program.Rig, runtime, pattern string) (string, error) {
	var output bytes.Buffer
	cmd := rig.Command(ctx, "test", "-v", "-run", pattern, "./test/kubelet")
	cmd.Env = append(os.Environ(), "E2E_RUNTIME="+runtime)
	cmd.Stdout = io.MultiWriter(os.Stdout, &output)
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 1 {
		err = nil
	}
	return output.String(), err
}

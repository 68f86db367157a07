// Command unit runs the tests of packages that need no engine, with or without root. It says how many tests it left out
// for which reason. Usage:
//
//	go run ./test/unit [packages]
//
// The flags of `go test` may be in GOFLAGS. It exits with 1 if a test failed.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/criadapter/criadapter/test/program"
	"github.com/criadapter/criadapter/test/rig/results"
)

func main() {
	flag.Parse()
	program.Main("unit", func(ctx context.Context) error { return run(ctx, flag.Args(), os.Stdout) })
}

// run tests packages. Without packages it tests the whole tree.
func run(ctx context.Context, packages []string, out io.Writer) error {
	if len(packages) == 0 {
		packages = []string{"./..."}
	}
	began := time.Now()
	cmd := exec.CommandContext(ctx, "go", append([]string{"test", "-json"}, packages...)...)
	cmd.Stderr = os.Stderr
	events, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	tests, err := collect(events, out)
	_, _ = io.Copy(io.Discard, events) // after an error, go test would wait for a reader
	exit := cmd.Wait()
	if err != nil {
		return err
	}
	count := report(tests, out)
	fmt.Fprintf(out, "\nafter %s\n%s\n", time.Since(began).Round(time.Second), count)
	if count.Failed > 0 || exit != nil {
		return errors.Join(errors.New("not everything passed"), exit)
	}
	return nil
}

// collect reads the events of `go test -json` and returns the tests, package by package. It passes on what the compiler
// says, and lines that are no events.
func collect(events io.Reader, out io.Writer) ([]results.Test, error) {
	packages := map[string]*results.Package{}
	lines := bufio.NewScanner(events)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var event struct{ Package, Output string }
		if json.Unmarshal(lines.Bytes(), &event) != nil {
			fmt.Fprintf(out, "%s\n", lines.Bytes())
			continue
		}
		if event.Package == "" {
			fmt.Fprint(out, event.Output)
			continue
		}
		if packages[event.Package] == nil {
			packages[event.Package] = results.NewPackage(event.Package)
		}
		packages[event.Package].Line(lines.Bytes())
	}
	var tests []results.Test
	for _, path := range slices.Sorted(maps.Keys(packages)) {
		tests = append(tests, packages[path].Finish(nil)...)
	}
	return tests, lines.Err()
}

// position begins a line that a test has logged: file.go:12:
var position = regexp.MustCompile(`(?m)^\s+\S+\.go:\d+: (.*)$`)

// report prints the output of failed tests, and how many tests were left out for each reason.
func report(tests []results.Test, out io.Writer) results.Count {
	left := map[string]int{}
	for _, test := range tests {
		switch test.Outcome {
		case results.Fail:
			fmt.Fprintf(out, "--- %s\n%s", test, test.Output)
		case results.Skip:
			reason := "no reason given"
			if said := position.FindAllStringSubmatch(test.Output, -1); said != nil {
				reason = strings.TrimSpace(said[len(said)-1][1])
			}
			left[reason]++
		}
	}
	for _, reason := range slices.Sorted(maps.Keys(left)) {
		fmt.Fprintf(out, "%4d tests left out: %s\n", left[reason], reason)
	}
	return results.CountOf(tests)
}

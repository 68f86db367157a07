// Command fuzz runs fuzz tests one after the other, and keeps a log of each.
//
//	go run ./test/fuzz [flags] [package...]
//
// A package is a directory below the working directory, such as ./image. Without one, all fuzz tests run. The log of a
// test is in build/fuzz. If the test passed, the last line of the log says how long it ran. With -resume a test is left
// out if its log says that the test passed and ran for at least -time. An input that fails stays in its package's
// testdata/fuzz, to be committed with the fix. Inputs that reach new code stay in Go's build cache, and the next run
// begins with them.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/criadapter/criadapter/test/program"
)

// options are the command line.
type options struct {
	time     time.Duration
	parallel int
	resume   bool
	logs     string
}

func main() {
	var o options
	flag.DurationVar(&o.time, "time", 5*time.Second, "run each test for this `duration`")
	flag.IntVar(&o.parallel, "parallel", 0, "the `number` of a test's processes; 0: one for each processor")
	flag.BoolVar(&o.resume, "resume", false,
		"leave out tests whose logs say that they passed and ran for at least -time")
	flag.StringVar(&o.logs, "logs", "build/fuzz", "the `directory` for logs")
	flag.Parse()
	program.Main("fuzz", func(ctx context.Context) error { return run(ctx, o, flag.Args()) })
}

// run runs the fuzz tests of packages. A failing test does not keep the others from running.
func run(ctx context.Context, o options, packages []string) error {
	targets, err := find(".", packages)
	if err != nil {
		return err
	}
	if len(targets) == 0 {
		return fmt.Errorf("no fuzz test in %s", strings.Join(packages, " "))
	}
	if err := os.MkdirAll(o.logs, 0o755); err != nil {
		return err
	}
	var failed []error
	for i, t := range targets {
		line, err := o.fuzz(ctx, t)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		fmt.Printf("%d of %d: %s: %s\n", i+1, len(targets), t, line)
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

// fuzz runs a test, and returns a line that says how it went. If the test passed, the log ends with the line.
func (o options) fuzz(ctx context.Context, t target) (string, error) {
	path := filepath.Join(o.logs, t.logName())
	if o.resume {
		if line, done := passed(path, o.time); done {
			return line, nil
		}
	}
	log, err := os.Create(path)
	if err != nil {
		return "", err
	}
	defer log.Close()
	args := []string{"test", "-run", "^$", "-fuzz", "^" + t.name + "$", "-fuzztime", o.time.String()}
	if o.parallel > 0 {
		args = append(args, "-parallel", fmt.Sprint(o.parallel))
	}
	cmd := exec.CommandContext(ctx, "go", append(args, "./"+t.dir)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // go test ends its own children
	cmd.Stdout, cmd.Stderr = log, log
	failed := cmd.Run()
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	if failed != nil && !onlyLate(string(text)) {
		return fmt.Sprintf("FAILED, see %s", path), fmt.Errorf("%s: %w", t, failed)
	}
	line := passedLine(o.time, string(text))
	_, err = fmt.Fprintln(log, line)
	return line, err
}

// onlyLate reports whether a test failed only because its time was over, which happens with Go before 1.27 on a busy
// machine (go.dev/issue/75804). A log of a failing input has the name of the file with that input.
func onlyLate(log string) bool {
	return lateEnd.MatchString(log) && !strings.Contains(log, "Failing input")
}

var lateEnd = regexp.MustCompile(`--- FAIL: Fuzz\w+ \(\S+\)\n    context deadline exceeded\nFAIL\n`)

// progress matches the figures that the go command prints every three seconds.
var progress = regexp.MustCompile(`execs: (\d+) .*new interesting: (\d+) \(total: (\d+)\)`)

// passedLine is the last line in the log of a test that passed.
func passedLine(took time.Duration, log string) string {
	line := fmt.Sprintf("passed after %s", took)
	if all := progress.FindAllStringSubmatch(log, -1); len(all) > 0 {
		last := all[len(all)-1]
		line += fmt.Sprintf(", %s executions, %s new inputs, %s inputs in all", last[1], last[2], last[3])
	}
	return line
}

// passed returns the last line of a log, and whether it says that the test passed and took at least as long as wanted.
func passed(path string, wanted time.Duration) (string, bool) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", false
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	line := lines[len(lines)-1]
	rest, says := strings.CutPrefix(line, "passed after ")
	duration, _, _ := strings.Cut(rest, ",")
	took, err := time.ParseDuration(duration)
	return line, says && err == nil && took >= wanted
}

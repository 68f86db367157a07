package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/criadapter/criadapter/test/rig/results"
)

// mobyTimeout bounds one run of the engine's tests.
const mobyTimeout = 40 * time.Minute

// mobyRun is a run of the engine's tests in the directory with their program. log is the file of their output.
type mobyRun struct {
	dir, log string
	environ  []string
}

// all runs all tests. Failed tests run a second time, up to the limit of results.Again. A test that passes then is
// flaky.
func (r mobyRun) all(ctx context.Context) ([]results.Test, error) {
	log, err := os.Create(r.log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	tests, err := r.run(ctx, log, "")
	if err != nil {
		return nil, err
	}
	if again, _ := results.Again(tests); len(again[mobyTests]) > 0 {
		now, err := r.run(ctx, log, "^("+strings.Join(again[mobyTests], "|")+")$")
		if err != nil {
			return nil, err
		}
		results.Judge(tests, now)
	}
	for _, test := range tests {
		if test.Name == "" || test.Unended {
			return nil, fmt.Errorf("the engine's tests did not run to their end, see %s", r.log)
		}
		if test.Outcome == results.Flaky {
			fmt.Printf("passed only the second time, see %s: %s\n", r.log, test.Name)
		}
	}
	return tests, nil
}

// run runs the tests of a pattern, all if it is empty.
func (r mobyRun) run(ctx context.Context, log io.Writer, pattern string) ([]results.Test, error) {
	ctx, cancel := context.WithTimeout(ctx, mobyTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "tool", "test2json", "./"+mobyProgram, "-test.v=test2json",
		"-test.timeout="+mobyTimeout.String(), "-test.run="+pattern)
	cmd.Dir, cmd.Env, cmd.Stderr, cmd.WaitDelay = r.dir, r.environ, log, time.Second
	// Cancel kills the process group, because the tests' program is a child of go tool test2json.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	events, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	pkg := results.NewPackage(mobyTests)
	_ = pkg.Read(events, log) // after an error, a test without its last event counts as failed
	return pkg.Finish(cmd.Wait()), ctx.Err()
}

package report

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// Suite is a run of specs with Ginkgo. All fields but Environ and Progress are required.
type Suite struct {
	// Program writes a JSON report with these arguments to the file Report.
	Program string
	Args    []string
	Report  string
	// Dir is the working directory and TMPDIR, because specs leave temporary directories behind.
	Dir string
	// Log is the file of the output. Log and Report of an earlier run are overwritten.
	Log string
	// Environ is added to the environment, as NAME=value.
	Environ []string
	// Progress gets the standard output, too.
	Progress io.Writer
	// Grace is how long the specs get to end after an interrupt.
	Grace time.Duration
}

// Run runs the specs and returns how each ended. Failed specs are not errors.
func (s Suite) Run(ctx context.Context) ([]Spec, error) {
	if err := os.Remove(s.Report); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	log, err := os.Create(s.Log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.CommandContext(ctx, s.Program, s.Args...)
	cmd.Dir, cmd.Env = s.Dir, append(append(os.Environ(), "TMPDIR="+s.Dir), s.Environ...)
	cmd.Stdout, cmd.Stderr = log, log
	if s.Progress != nil {
		cmd.Stdout = io.MultiWriter(log, s.Progress)
	}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = s.Grace
	runErr := cmd.Run()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	text, err := os.Open(s.Report)
	if err != nil {
		name := filepath.Base(s.Program)
		return nil, fmt.Errorf("%s wrote no report, see %s: %w", name, s.Log, errors.Join(err, runErr))
	}
	defer text.Close()
	return ParseGinkgo(text)
}

// ReadExpected reads the files and joins their lists.
func ReadExpected(files ...string) (Expected, error) {
	var all Expected
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		expected, err := ParseExpected(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, expected...)
	}
	return all, nil
}

// OnRig returns the groups that apply to the rig's engine and this machine, and the features of the engine.
func (e Expected) OnRig(ctx context.Context, env rigenv.Env) (Expected, docker.Features, error) {
	engine, err := docker.Dial(docker.Options{Host: env.DockerHost})
	if err != nil {
		return nil, docker.Features{}, err
	}
	defer engine.Close()
	features, err := engine.Features(ctx)
	machine := Machine{Controllers: rigenv.Controllers(), Capabilities: rigenv.Capabilities(), Dummy: hasDummy(),
		OCIRuntime: true}
	return e.On(features, machine), features, err
}

// hasDummy says whether the kernel makes a network device of the type dummy in the rig's network namespace.
func hasDummy() bool {
	device := &netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Name: "expected-dummy"}}
	return netlink.LinkAdd(device) == nil && netlink.LinkDel(device) == nil
}

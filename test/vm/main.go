package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/criadapter/criadapter/test/program"
	"github.com/criadapter/criadapter/test/vm/machine"
	"github.com/criadapter/criadapter/test/vm/node"
)

// exitCode is the error of a command that has ended with another code than 0.
type exitCode int

func (e exitCode) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// set is a named group of checks that runs on a machine.
type set struct {
	name string
	do   func(*suite, context.Context) error
}

// sets returns all sets, in the order of the usage text.
func sets() []set {
	return []set{
		{"critest", (*suite).critest},
		{"commands", (*suite).commands},
		{"fields", (*suite).fields},
		{"reboot", (*suite).reboot},
		{"power", (*suite).power},
		{"clock", (*suite).clock},
		{"take-over", (*suite).takeOver},
	}
}

// options are the command line.
type options struct {
	command, set, kind string
	cached             bool
	cuts               int
	critestArgs        string
}

// suite is one run.
type suite struct {
	kind    machine.Kind
	machine *machine.Machine
	// dir is a directory of this host for the run.
	dir string
	// cuts is how often the power is cut.
	cuts int
	// critestArgs are more arguments of critest.
	critestArgs string
}

func main() {
	var opts options
	var names []string
	for _, s := range sets() {
		names = append(names, s.name)
	}
	flag.StringVar(&opts.command, "run", "", "run these shell `lines` on the machine, and exit with their exit code")
	flag.StringVar(&opts.set, "set", "", "run a prepared set of checks: one `name` of "+strings.Join(names, ", "))
	flag.StringVar(&opts.kind, "machine", "", "the `kind` of machine: one of "+strings.Join(machine.KindNames(), ", "))
	flag.BoolVar(&opts.cached, "cached", false, "do nothing if the machine is not in the cache")
	flag.IntVar(&opts.cuts, "cuts", 10, "cut the power this `number` of times, with -set power")
	flag.StringVar(&opts.critestArgs, "critest-args", "", "more `arguments` for critest, like -ginkgo.focus=AppArmor")
	flag.Parse()
	program.Main("vm", func(ctx context.Context) error {
		err := run(ctx, opts)
		var code exitCode
		if errors.As(err, &code) {
			if err.Error() != code.Error() { // closing the machine failed, too
				fmt.Fprintf(os.Stderr, "vm: %v\n", err)
			}
			os.Exit(int(code)) // the machine has ended, and its directory is gone
		}
		return err
	})
}

func run(ctx context.Context, opts options) error {
	kind, err := machine.KindNamed(opts.kind)
	if err != nil {
		return err
	}
	if opts.cached {
		has, err := kind.Cached(ctx)
		if err != nil {
			return err
		}
		if !has {
			fmt.Println("vm skipped: its machine is not in the cache; make vm makes it")
			return nil
		}
	}
	do, err := opts.task()
	if err != nil {
		return err
	}
	return program.InDir(func(dir string) (err error) {
		share := filepath.Join(dir, "share")
		if err := node.FillShare(ctx, kind, share); err != nil {
			return err
		}
		began := time.Now()
		m, err := node.Start(ctx, machine.Options{Kind: kind, Dir: dir, Share: share})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, m.Close()) }()
		fmt.Printf("the machine took %s to start and to install criadapter\n", time.Since(began).Round(time.Second))
		s := &suite{kind: kind, machine: m, dir: dir, cuts: opts.cuts, critestArgs: opts.critestArgs}
		err = do(s, ctx)
		var code exitCode
		if err != nil && !errors.As(err, &code) {
			err = fmt.Errorf("%w\n%s", err, s.journal(context.WithoutCancel(ctx)))
		}
		return err
	})
}

// task is what the command line asks for.
func (o options) task() (func(*suite, context.Context) error, error) {
	all := sets()
	i := slices.IndexFunc(all, func(s set) bool { return s.name == o.set })
	switch {
	case o.command != "" && o.set != "":
		return nil, errors.New("-run and -set exclude each other: give one of them")
	case o.set == "":
		return func(s *suite, ctx context.Context) error { return s.run(ctx, o.command) }, nil
	case i < 0:
		return nil, fmt.Errorf("there is no set %q", o.set)
	}
	return all[i].do, nil
}

// run runs shell lines on the machine and passes on their output.
func (s *suite) run(ctx context.Context, lines string) error {
	if lines == "" {
		lines = "uname -a; criadapter --version; docker version; criadapter check"
	}
	code, err := s.machine.Stream(ctx, os.Stdout, os.Stderr, "bash", "-c", lines)
	if err == nil && code != 0 {
		err = exitCode(code)
	}
	return err
}

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"time"

	"github.com/criadapter/criadapter/test/debian/machine"
	"github.com/criadapter/criadapter/test/program"
)

// check is one test of the release.
type check struct {
	name string
	do   func(*suite, context.Context) error
}

// checks returns the checks in their order. Each check needs the state that the previous check leaves.
func checks() []check {
	return []check{
		{"TwoBuildsGiveOneDigest", (*suite).twoBuilds},
		{"AlertsFireWhenTheyShould", (*suite).alerts},
		{"Install", (*suite).install},
		{"PodsComeUp", (*suite).podsUp},
		{"ReadyOnceRecovered", (*suite).recovered},
		{"Upgrade", (*suite).upgrade},
		{"NamesOfCRIDockerd", (*suite).takeNames},
		{"Minikube", (*suite).minikube},
		{"Kubeadm", (*suite).kubeadm},
		{"NamesGoAgain", (*suite).dropNames},
		{"Bundle", (*suite).bundle},
		{"RemovalWaitsForOCIRuntime", (*suite).removalWaits},
		{"EarlierRelease", (*suite).earlier},
		{"RemoveAndComeBack", (*suite).removeAndComeBack},
		{"Image", (*suite).image},
		{"Dashboard", (*suite).dashboard},
		{"Purge", (*suite).purge},
		{"RPM", (*suite).rpm},
		{"APKOnOpenRC", (*suite).apk},
		{"Documents", (*suite).documents},
	}
}

// suite is one run.
type suite struct {
	dir     string
	machine *machine.Machine
	// before has the state of the containers when they came up.
	before map[string]containerState
}

func main() {
	cached := flag.Bool("cached", false, "exit without a run if Debian's parts are not downloaded yet")
	pattern := flag.String("run", "", "run only the checks that match this `pattern`; most need the checks before them")
	flag.Parse()
	program.Main("packages", func(ctx context.Context) error { return run(ctx, *cached, *pattern) })
}

func run(ctx context.Context, cached bool, pattern string) (err error) {
	chosen, err := regexp.Compile(pattern)
	if err != nil {
		return err
	}
	list := slices.DeleteFunc(checks(), func(c check) bool { return !chosen.MatchString(c.name) })
	if len(list) == 0 {
		return fmt.Errorf("-run %q: no check has such a name", pattern)
	}
	if cached {
		missing, err := missingParts()
		if err != nil {
			return err
		}
		if missing != "" {
			fmt.Println("packages skipped: " + missing)
			return nil
		}
	}
	if os.Geteuid() != 0 {
		return errors.New("only root can make the namespaces of the machine: run this as root")
	}
	s := &suite{}
	if s.dir, err = os.MkdirTemp("", "criadapter-packages-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := s.build(ctx); err != nil {
		return err
	}
	if err := s.boot(ctx); err != nil {
		return err
	}
	for passed, c := range list {
		began := time.Now()
		if err := c.do(s, ctx); err != nil {
			fmt.Printf("FAIL %s\n%d passed, 1 failed\n", c.name, passed)
			return fmt.Errorf("%s: %w\n%s", c.name, err, s.machine.Journal(ctx))
		}
		fmt.Printf("ok   %s (%.1f s)\n", c.name, time.Since(began).Seconds())
	}
	fmt.Printf("%d passed, 0 failed\n", len(list))
	return nil
}

func (s *suite) close() error {
	var errs []error
	if s.machine != nil {
		errs = append(errs, s.machine.Close())
	}
	return errors.Join(append(errs, os.RemoveAll(s.dir))...)
}

// boot starts the machine.
func (s *suite) boot(ctx context.Context) error {
	root, err := machine.Root(ctx)
	if err != nil {
		return err
	}
	share := filepath.Join(s.dir, "share")
	booted, err := machine.Boot(ctx, machine.Options{Root: root, Dir: filepath.Join(s.dir, "machine"), Share: share,
		Address: "192.0.2.1/24"})
	if err != nil {
		return err // s.machine stays the closed machine: with nil, the Journal call in run would panic
	}
	s.machine = booted
	return nil
}

// architecture is the architecture of this machine, so that it can run the releases.
const architecture = runtime.GOARCH

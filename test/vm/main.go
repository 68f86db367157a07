package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/criadapter/criadapter/test/program"
	"github.com/criadapter/criadapter/test/vm/machine"
)

// version is the release that is installed.
const version = "1.0.0"

// exitCode is the error of a command that has ended with another code than 0.
type exitCode int

func (e exitCode) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// set is something ready that a machine is for.
type set struct {
	name string
	do   func(*suite, context.Context) error
}

// sets are all of them.
func sets() []set {
	return []set{
		{"critest", (*suite).critest},
		{"reboot", (*suite).reboot},
		{"power", (*suite).power},
	}
}

// options are the command line.
type options struct {
	command, set string
	cached       bool
	cuts         int
	critestArgs  string
}

// suite is one run.
type suite struct {
	dir     string
	machine *machine.Machine
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
	flag.StringVar(&opts.command, "run", "", "run these `lines` of a shell on the machine, and exit with their code")
	flag.StringVar(&opts.set, "set", "", "run a ready set: one `name` of "+strings.Join(names, ", "))
	flag.BoolVar(&opts.cached, "cached", false, "do nothing where the machine would have to be made first")
	flag.IntVar(&opts.cuts, "cuts", 10, "cut the power this `number` of times, with -set power")
	flag.StringVar(&opts.critestArgs, "critest-args", "", "more `arguments` of critest, as -ginkgo.focus=AppArmor")
	flag.Parse()
	program.Main("vm", func(ctx context.Context) error {
		err := run(ctx, opts)
		var code exitCode
		if errors.As(err, &code) {
			os.Exit(int(code)) // the machine has ended, and its directory is gone
		}
		return err
	})
}

func run(ctx context.Context, opts options) error {
	if opts.cached {
		if has, err := machine.Cached(ctx); err != nil || !has {
			fmt.Println("vm skipped: its machine is not in the cache; make vm makes it")
			return err
		}
	}
	do, err := opts.task()
	if err != nil {
		return err
	}
	return program.InDir(func(dir string) (err error) {
		s := &suite{dir: dir, cuts: opts.cuts, critestArgs: opts.critestArgs}
		if err := s.start(ctx); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.machine.Close()) }()
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
		return nil, errors.New("a command and a set are too much for one machine: name one of them")
	case o.set == "":
		return func(s *suite, ctx context.Context) error { return s.run(ctx, o.command) }, nil
	case i < 0:
		return nil, fmt.Errorf("there is no set %q", o.set)
	}
	return all[i].do, nil
}

// run runs lines of a shell on the machine and passes on what they write.
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

// start starts the machine and installs the tree's build on it.
func (s *suite) start(ctx context.Context) error {
	image, err := machine.Image(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	share := filepath.Join(s.dir, "share")
	if err := fillShare(ctx, share); err != nil {
		return err
	}
	built := time.Since(began)
	began = time.Now()
	if s.machine, err = machine.Start(ctx, machine.Options{Image: image, Dir: s.dir, Share: share}); err != nil {
		return err
	}
	started := time.Since(began)
	began = time.Now()
	if err := s.install(ctx); err != nil {
		return errors.Join(err, s.machine.Close())
	}
	fmt.Printf("the machine: %s to build, %s to start, %s to install\n", built.Round(time.Second),
		started.Round(time.Second), time.Since(began).Round(time.Second))
	return nil
}

// replaceEngine replaces the programs of Debian's engine with the ones in the share, if it has any.
const replaceEngine = `
		if [ -d /mnt/engine ]; then
			systemctl stop docker.socket docker containerd
			for program in $(ls /mnt/engine | grep -v daemon.json); do
				cp /mnt/engine/$program $(command -v $program)
			done
			rm -rf /var/lib/docker /var/lib/containerd
			cp /mnt/engine/daemon.json /etc/docker
			systemctl start containerd docker.socket docker
		fi
`

// install installs the deb and what a node has beside it, as an operator does. crictl ignores a configuration that it
// cannot read and then asks containerd, so its answer must be criadapter's.
func (s *suite) install(ctx context.Context) error {
	_, err := s.machine.Shell(ctx, `
		mkdir -p /opt/cni /etc/cni/net.d /etc/docker`+replaceEngine+`
		cp -r /mnt/plugins /opt/cni/bin
		cp /mnt/10-pods.conflist /etc/cni/net.d
		install /mnt/crictl /usr/local/bin
		echo 'runtime-endpoint: unix:///run/criadapter/criadapter.sock' > /etc/crictl.yaml
		echo 'timeout: 60' >> /etc/crictl.yaml
		dpkg --install /mnt/`+version+`/criadapter_`+version+`_`+runtime.GOARCH+`.deb
		systemctl is-active criadapter.socket criadapter.service
		crictl version | grep -x 'RuntimeName: *docker'`)
	return err
}

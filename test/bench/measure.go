package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/test/rig/adapter"
	"github.com/criadapter/criadapter/test/rig/engine"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// bench is one run of all measurements.
type bench struct {
	env  rigenv.Env
	plan plan
	// dir holds everything but the engine of the rig.
	dir string
	// cgroup is the parent of all pods' cgroups. The rig removes the cgroup when it ends.
	cgroup string
	// image is the image of all containers. Each server pulls it. Sandboxes run criadapter's built-in image on all
	// servers.
	image string

	adapter    *adapter.Server
	engineLink string
	servers    []*criServer // criadapter first
	crowd      *crowd       // criadapter's pods
	result     result
	suites     suites
}

// plan says how much is sampled.
type plan struct {
	cycles, relists, statuses, stats, storms, execs, logs, directories, deaths int
	// nodePods is how many pods there are while the memory of a node is measured.
	nodePods int
	// restPods is the number of resting pods, and rest is how long their cost is measured.
	restPods int
	rest     time.Duration
	// moreWorkers adds measurements with more workers, and with podsSome pods.
	moreWorkers bool
	// logLines is how many lines of logLine bytes a container writes.
	logLines int
	// slow bounds the time for the samples of one figure of one server.
	slow time.Duration
	// podsAtOnce, images and sessions are how many of each the part scale makes. dead has the numbers of dead
	// containers at which it measures, and restarts is how often it measures a start and a life.
	podsAtOnce, images, sessions, restarts int
	dead                                   []int
	// suiteTurns is how often each server runs each suite. stress is the time of a run of containerd-stress, and
	// lifecycles the number of pods, containers and images in a run of critest.
	suiteTurns, lifecycles int
	stress                 time.Duration
}

func planFor(opts options) plan {
	if opts.quick {
		return plan{cycles: 5, relists: 60, statuses: 60, stats: 5, storms: 1, execs: 20, logs: 1, directories: 1,
			deaths: 2, nodePods: 20,
			restPods: 20, rest: 20 * time.Second, logLines: 200_000, slow: time.Second,
			podsAtOnce: 40, images: 100, sessions: 100, restarts: 1, dead: []int{200, 1000},
			suiteTurns: 1, lifecycles: 5, stress: 5 * time.Second}
	}
	return plan{moreWorkers: true, cycles: 40, relists: 300, statuses: 300, stats: 30, storms: 3, execs: 100, logs: 5,
		directories: 3, deaths: 10, nodePods: allPods,
		restPods: 100, rest: time.Minute, logLines: 1_000_000, slow: 30 * time.Second,
		podsAtOnce: 200, images: 2000, sessions: 1000, restarts: 3, dead: []int{1000, 10_000},
		suiteTurns: 3, lifecycles: 20, stress: 15 * time.Second}
}

// part is a measurement that can run alone.
type part struct {
	name, what string
	do         func(*bench, context.Context) error
	// build builds another project's suite, see isSuite.
	build func(context.Context) error
}

// parts returns the parts of a run without -parts, in their order.
func parts() []part {
	return []part{
		{"inprocess", "lists in process", (*bench).measureInProcess, nil},
		{"lives", "the life of a pod", (*bench).measureLives, nil},
		{"memory", "the memory of a node", (*bench).measureNodes, nil},
		{"rest", "pods at rest", (*bench).measureRest, nil},
		{"many", "many pods", (*bench).measureMany, nil},
		{"images", "images", (*bench).measureImages, nil},
		{"exec", "ExecSync beside the engine's calls", (*bench).measureExec, nil},
		{"logs", "container logs", (*bench).measureLogs, nil},
		{"kubelet", "pods through the kubelet core", (*bench).measureKubelet, nil},
	}
}

// scalePart is the name of the part that measures nodes with many sessions, pods, dead containers or images.
const scalePart = "scale"

// namedParts returns the parts that run only if -parts names them, because they take long.
func namedParts() []part {
	return append(suiteParts(), part{scalePart, "many sessions, pods, images or dead containers",
		(*bench).measureScale, nil})
}

func partNames() string {
	var names []string
	for _, p := range slices.Concat(parts(), namedParts()) {
		names = append(names, p.name)
	}
	return strings.Join(names, ",")
}

// chosen returns the parts that a comma-separated list names. For an empty list, it returns the same as the function
// parts.
func chosen(names string) ([]part, error) {
	if names == "" {
		return parts(), nil
	}
	var some []part
	all := slices.Concat(parts(), namedParts())
	for name := range strings.SplitSeq(names, ",") {
		i := slices.IndexFunc(all, func(p part) bool { return p.name == name })
		if i < 0 {
			return nil, fmt.Errorf("-parts %s: there is no part %q", names, name)
		}
		some = append(some, all[i])
	}
	return some, nil
}

// measure does the measurements, prints the figures and writes them to opts.jsonFile.
func measure(ctx context.Context, env rigenv.Env, opts options) (err error) {
	some, err := chosen(opts.parts)
	if err != nil {
		return err
	}
	b := &bench{
		env:    env,
		plan:   planFor(opts),
		cgroup: "/" + filepath.Base(filepath.Dir(env.WorkDir)) + "/bench",
		image:  env.Image("test/busybox:latest"),
		result: result{Engine: env.Engine, Versions: map[string]string{}},
		suites: suites{Engine: env.Engine, Versions: map[string]string{}},
	}
	if b.dir, err = os.MkdirTemp(env.WorkDir, "b"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close(context.WithoutCancel(ctx))) }()
	if err := b.start(ctx, opts); err != nil {
		return err
	}
	for _, p := range some {
		began := time.Now()
		if err := p.do(b, ctx); err != nil {
			return errors.Join(fmt.Errorf("%s: %w", p.what, err), b.printAll(os.Stdout))
		}
		fmt.Fprintf(os.Stderr, "bench: %s took %v\n", p.what, time.Since(began).Round(time.Second))
	}
	if slices.ContainsFunc(some, part.isSuite) {
		err = b.suites.report(os.Stdout)
	}
	if !slices.ContainsFunc(some, func(p part) bool { return !p.isSuite() }) {
		return err
	}
	if opts.jsonFile == "" {
		kind := "result"
		if opts.parts == scalePart {
			kind = scalePart
		}
		opts.jsonFile = resultFile(kind, env.Engine)
	}
	return errors.Join(err, b.result.print(os.Stdout), b.result.write(opts.jsonFile))
}

// printAll prints what was measured until an error.
func (b *bench) printAll(out io.Writer) error {
	var errs []error
	for _, one := range b.suites.Suites {
		errs = append(errs, one.print(out))
	}
	return errors.Join(append(errs, b.result.print(out))...)
}

// resultFile returns the file for one kind of figures of an engine.
func resultFile(kind, name string) string {
	if name != engine.Installed {
		kind += "-" + filepath.Base(name)
	}
	return filepath.Join("build", "bench", kind+".json")
}

// start starts all servers and gives them the image.
func (b *bench) start(ctx context.Context, opts options) error {
	for _, start := range []func() (*criServer, error){
		func() (*criServer, error) { return b.startCriadapter(ctx) },
		func() (*criServer, error) { return b.startWithOCI(ctx) },
		func() (*criServer, error) { return b.startContainerd(ctx) },
		func() (*criServer, error) { return b.startCRIDockerd(ctx, opts.criDockerd) },
	} {
		s, err := start()
		if err != nil {
			return err
		}
		b.servers = append(b.servers, s)
		if err := s.pull(ctx, b.image); err != nil {
			return err
		}
		version, err := s.runtime.Version(ctx, &runtimeapi.VersionRequest{})
		if err != nil {
			return err
		}
		b.result.Versions[s.name] = version.GetRuntimeName() + " " + version.GetRuntimeVersion()
	}
	return nil
}

// serversNamed returns the named servers, in the order of the names.
func (b *bench) serversNamed(names ...string) []*criServer {
	var some []*criServer
	for _, name := range names {
		i := slices.IndexFunc(b.servers, func(s *criServer) bool { return s.name == name })
		some = append(some, b.servers[i])
	}
	return some
}

// close ends the servers. The rig ends the pods that are left and removes the files in its scratch directory.
func (b *bench) close(ctx context.Context) error {
	var errs []error
	for _, s := range slices.Backward(b.servers) {
		errs = append(errs, s.conn.Close(), s.stop(ctx))
	}
	return errors.Join(errs...)
}

// turns calls f rounds times for each of n members. The order changes each round, so that the leftovers of one member
// do not always slow the same next member.
func turns(rounds, n int, f func(round, member int) error) error {
	random := rand.New(rand.NewPCG(1, 2)) // the same orders in each run
	for round := range rounds {
		for _, member := range random.Perm(n) {
			if err := f(round, member); err != nil {
				return err
			}
		}
	}
	return nil
}

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/criadapter/criadapter/test/cluster/build"
	"github.com/criadapter/criadapter/test/program"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// keepFlag makes the process the keeper. Only startKeeper sets it.
const keepFlag = "keep"

// options are the command line.
type options struct {
	keep, down, check, certified, cached, build bool
	// run is a pattern of names of steps, node2 the runtime of the second node, and family names the addresses. network
	// is the add-on that connects the pods.
	run, node2, family, network string
	// focus is a pattern of names of specs, and report the directory for their results.
	focus, report string
	// processes is the number of specs that run at once.
	processes int
}

func main() {
	var o options
	flag.BoolVar(&o.keep, keepFlag, false, "internal: be the keeper of a cluster")
	flag.BoolVar(&o.down, "down", false, "remove the cluster")
	flag.BoolVar(&o.check, "check", false, "bring a cluster up, try it step by step, and remove it")
	flag.BoolVar(&o.certified, "certified", false,
		"bring a cluster up, run the certified suite of its release on it, and remove it")
	flag.StringVar(&o.focus, "focus", "", "with -certified, run the specs that match this `pattern` instead")
	flag.IntVar(&o.processes, "p", 10, "with -certified, the number of specs that run at once")
	flag.StringVar(&o.report, "report", "build/conformance", "with -certified, the `directory` for its results")
	flag.BoolVar(&o.build, "build", false, "only build the programs")
	flag.BoolVar(&o.cached, "cached", false, "do nothing if programs or Debian's packages are not in the cache")
	flag.StringVar(&o.run, "run", "", "with -check, try only the steps that match this `pattern`")
	flag.StringVar(&o.node2, "node2", runtimeCriadapter,
		"the `runtime` of the second node, "+runtimeCriadapter+" or "+runtimeContainerd)
	flag.StringVar(&o.family, "family", familyIPv4,
		"the `family` of addresses, "+familyIPv4+", "+familyDual+" (both) or "+familyIPv6+" (alone)")
	flag.StringVar(&o.network, "network", "", fmt.Sprintf(
		"the `add-on` that connects the pods, %s; empty: %s with IPv4 alone, otherwise %s",
		podNetworkNames(), networkFlannel, networkRouter))
	flag.Parse()
	program.Main("cluster", func(ctx context.Context) error { return run(ctx, o) })
}

func run(ctx context.Context, o options) error {
	switch {
	case o.keep:
		return keep(ctx)
	case o.build:
		_, err := o.programs(ctx)
		return err
	}
	if os.Geteuid() != 0 {
		return errors.New("only root can make the namespaces of the nodes: run this as root")
	}
	if o.down {
		return removeAll(ctx)
	}
	steps, err := o.steps()
	if err != nil {
		return err
	}
	if o.cached {
		missing, err := missingParts(ctx, o)
		if err != nil {
			return err
		}
		if len(missing) > 0 {
			fmt.Printf("cluster skipped: not in the cache, the same command without CACHED=1 fetches it: %s\n",
				strings.Join(missing, ", "))
			return nil
		}
	}
	if err := bringUp(ctx, o); err != nil {
		return err
	}
	switch {
	case o.certified:
		err = certify(ctx, o)
	case o.check:
		err = try(ctx, steps)
	default:
		return welcome()
	}
	if err != nil {
		ctx = context.WithoutCancel(ctx)
		err = errors.Join(err, keepLogs(ctx))
		fmt.Println("the nodes' logs are in " + stateDir)
		return errors.Join(err, takeDown(ctx))
	}
	return removeAll(ctx)
}

// extras are the programs that only some clusters need.
func (o options) extras() (build.Extras, error) {
	network, err := podNetworkOf(o.network, o.family)
	extras := network.extras
	extras.Certified = o.certified
	extras.Minikube = o.check && !o.leavesOut(stepMinikube)
	return extras, err
}

// programs builds what the cluster and its use need.
func (o options) programs(ctx context.Context) (build.Programs, error) {
	extras, err := o.extras()
	if err != nil {
		return build.Programs{}, err
	}
	return build.WithKubeadm(ctx, extras, os.Stdout)
}

// missingPrograms returns the names of the programs that the cache does not have.
func (o options) missingPrograms(ctx context.Context) ([]string, error) {
	extras, err := o.extras()
	if err != nil {
		return nil, err
	}
	return build.MissingWithKubeadm(ctx, extras)
}

// removeAll removes the cluster and its logs.
func removeAll(ctx context.Context) error {
	if err := takeDown(ctx); err != nil {
		return err
	}
	return os.RemoveAll(stateDir)
}

// steps are the steps that the command line asks for.
func (o options) steps() ([]step, error) {
	if o.node2 != runtimeCriadapter && o.node2 != runtimeContainerd {
		return nil, fmt.Errorf("-node2 %q: want %s or %s", o.node2, runtimeCriadapter, runtimeContainerd)
	}
	if _, err := networksOf(o.family); err != nil {
		return nil, err
	}
	if _, err := podNetworkOf(o.network, o.family); err != nil {
		return nil, err
	}
	if mode := os.Getenv("RUNTIME_MODE"); mode != "" && mode != rigenv.ModeOCI {
		return nil, fmt.Errorf("RUNTIME_MODE=%s: want %s, or leave it out", mode, rigenv.ModeOCI)
	}
	if o.run != "" && !o.check {
		return nil, errors.New("-run names steps of -check: give both")
	}
	if o.focus != "" && !o.certified {
		return nil, errors.New("-focus names specs of -certified: give both")
	}
	if o.check && o.certified {
		return nil, errors.New("-check and -certified each remove the cluster: give one")
	}
	pattern, err := regexp.Compile(o.run)
	if err != nil {
		return nil, fmt.Errorf("-run: %w", err)
	}
	var chosen []step
	for _, s := range allSteps() {
		if pattern.MatchString(s.name) && !o.leavesOut(s.name) {
			chosen = append(chosen, s)
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("-run %q: no step of this cluster matches", o.run)
	}
	return chosen, nil
}

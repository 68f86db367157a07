package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/criadapter/criadapter/test/cluster/build"
	"github.com/criadapter/criadapter/test/cluster/single"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

const (
	// usualPods is how many pods a kubelet takes by default.
	usualPods = 110
	// mostPods is the most that -pods accepts. The pod network of each server has addresses for twice as many.
	mostPods = 500
)

// usageText is what -help prints before the flags.
const usageText = `Fills a node through the real kubelet and measures it, on criadapter and on its peers one after the
other. With -nodes it measures the real kubelet and the kubelet core, each on criadapter:

  up        all pods are created at once
  rest      no pod is created or deleted
  restarts  all pods are replaced like in a Deployment rollout with maxUnavailable 25 %
  churn     some pods are replaced every second; three quarters stay Ready, and no more exist than the kubelet takes
  gone      all pods are deleted at once
  probes    the kubelet runs a command in new pods

The result is written to the report's directory, and make figures takes it to docs/reports/load.md. A phase
that does not finish in eight minutes is named in the report. If it is a phase of criadapter, the command fails, too.
ENGINE names the engine. All servers take half an hour, on a machine that does nothing else.

`

// options are the command line.
type options struct {
	pods                  int
	churn, probes         int
	rest, churned, probed time.Duration
	servers               []string
	// nodes are the kinds of nodes to measure, each on criadapter. If there are any, servers is criadapter alone.
	nodes  []string
	report string
	cached bool
}

// quick are the times of a shorter run.
var quick = map[string]time.Duration{"rest": 20 * time.Second, "probed": 30 * time.Second, "churned": time.Minute}

// parseOptions reads the command line. With -help it prints the usage and exits.
func parseOptions(args []string) (options, error) {
	o, err := readFlags(args, os.Stdout)
	if errors.Is(err, flag.ErrHelp) {
		os.Exit(0)
	}
	return o, err
}

func readFlags(args []string, help io.Writer) (o options, err error) {
	flags := flag.NewFlagSet("load", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // the caller prints the error
	flags.Usage = func() {}
	flags.IntVar(&o.pods, "pods", 100, "how many pods of one container")
	flags.DurationVar(&o.rest, "rest", time.Minute, "how long the pods are left alone")
	flags.IntVar(&o.churn, "churn", 5, "how many pods are to be replaced each second")
	flags.DurationVar(&o.churned, "churned", 5*time.Minute, "how long pods are replaced")
	flags.IntVar(&o.probes, "probes", 1000, "how many probes a minute the kubelet is to make")
	flags.DurationVar(&o.probed, "probed", time.Minute, "how long probes are counted")
	short := flags.Bool("quick", false,
		"20 s of rest, 30 s of probes, a minute of churn, unless a flag names another time")
	servers := flags.String("servers", strings.Join(single.Servers(), ","),
		"measure only these servers, a comma-separated `list`")
	nodes := flags.String("nodes", "", "measure these kubelets on criadapter, a comma-separated `list` of "+
		strings.Join(single.Nodes(), " and "))
	flags.StringVar(&o.report, "report", "build/load", "the `directory` for logs and the result")
	flags.BoolVar(&o.cached, "cached", false, "do nothing if the programs are not in the cache")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		flags.SetOutput(help)
		fmt.Fprint(help, usageText)
		flags.PrintDefaults()
		return o, err
	} else if err != nil {
		return o, fmt.Errorf("%w, see -help", err)
	}
	o.servers = strings.Split(*servers, ",")
	if *nodes != "" {
		o.servers, o.nodes = []string{single.Criadapter}, strings.Split(*nodes, ",")
	}
	if *short {
		o.shorten(flags)
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q, see -help", flags.Arg(0))
	}
	return o, o.check()
}

// shorten sets the times of a shorter run, except for times that the command line has.
func (o *options) shorten(flags *flag.FlagSet) {
	times := map[string]*time.Duration{"rest": &o.rest, "probed": &o.probed, "churned": &o.churned}
	flags.Visit(func(f *flag.Flag) { delete(times, f.Name) })
	for name, value := range times {
		*value = quick[name]
	}
}

func (o options) check() error {
	if o.pods < 1 || o.pods > mostPods {
		return fmt.Errorf("-pods %d: want 1 to %d", o.pods, mostPods)
	}
	if o.churn < 1 || o.probes < 1 || o.rest <= 0 || o.churned <= 0 || o.probed <= 0 {
		return errors.New("-churn, -probes, -rest, -churned and -probed must be greater than 0")
	}
	for _, name := range o.servers {
		if !slices.Contains(single.Servers(), name) {
			return fmt.Errorf("-servers: no server is named %q, want some of %s", name,
				strings.Join(single.Servers(), ", "))
		}
	}
	for _, name := range o.nodes {
		if !slices.Contains(single.Nodes(), name) {
			return fmt.Errorf("-nodes: no node is named %q, want some of %s", name,
				strings.Join(single.Nodes(), ", "))
		}
	}
	return nil
}

// maxPods is the kubelet's limit on pods, ending pods included.
func (o options) maxPods() int { return max(usualPods, o.pods+o.pods/10) }

// column is one measured node: its name in the result, its CRI server and its kubelet.
type column struct{ name, server, node string }

// columns returns what is measured: servers with the real kubelet, or nodes on criadapter.
func (o options) columns() []column {
	var all []column
	if len(o.nodes) > 0 {
		for _, node := range o.nodes {
			all = append(all, column{node, single.Criadapter, node})
		}
		return all
	}
	for _, server := range o.servers {
		all = append(all, column{server, server, ""})
	}
	return all
}

// file is the name of the result's file.
func (o options) file(env rigenv.Env) string {
	name := "result"
	if len(o.nodes) > 0 {
		name = "result-nodes"
	}
	if o.pods > usualPods {
		name = fmt.Sprintf("%s-%d-pods", name, o.pods)
	}
	return forEngine(name, env.Engine, ".json")
}

func (o options) probePlan() probePlan { return planProbes(o.probes, o.pods) }

// result returns a result with the options of this run, and no servers yet.
func (o options) result(env rigenv.Env) result {
	return result{
		Pods: o.pods, Rest: o.rest.Seconds(), Churned: o.churned.Seconds(), Probed: o.probed.Seconds(), Churn: o.churn,
		Probes: o.probePlan().perMinute(), Engine: env.Engine, Mode: env.Mode, Kubelet: build.Version,
	}
}

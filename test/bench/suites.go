package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/test/cgroups"
	"github.com/criadapter/criadapter/test/program"
)

// suites are the results of other projects' suites. They have a file of their own.
type suites struct {
	Engine   string            `json:"engine"`
	Versions map[string]string `json:"versions"`
	Suites   []*suite          `json:"suites"`
}

// suite is a suite that ran on criadapter and its peers in turns.
type suite struct {
	// Name has the suite's version. What describes its rows.
	Name string     `json:"name"`
	What string     `json:"what"`
	Rows []suiteRow `json:"rows"`
	// Failed has the reasons of failures by server.
	Failed map[string][]string `json:"failed,omitempty"`

	times table
	// samples is the number of durations that a row has for a server on which nothing failed.
	samples int
}

// suiteRow is one figure of a suite.
type suiteRow struct {
	Name string `json:"name"`
	// Median is in milliseconds, by server.
	Median map[string]float64 `json:"median"`
	// Ratios compare criadapter with each peer: they are the medians of the turns' ratios. A row has no ratio to a peer
	// if criadapter or the peer failed.
	Ratios map[string]float64 `json:"ratios"`
}

// suiteParts returns the suites.
func suiteParts() []part {
	return []part{
		{"stress", "containerd-stress", (*bench).measureStress, buildStress},
		{"critest", "critest -benchmark", (*bench).measureCritest, buildCritest},
	}
}

// isSuite says whether a part is another project's suite.
func (p part) isSuite() bool { return p.build != nil }

// suitePeers returns the servers that the suites compare criadapter with. The suites do not measure criadapter-oci: the
// pods of both suites share a PID namespace with their containers, so they keep a sandbox container.
func suitePeers() []string { return []string{nameCRIDockerd, nameContainerd} }

// containerdPods is the cgroup below which containerd puts pods that name no parent.
const containerdPods = "k8s.io"

// runSuite runs a suite on criadapter and its peers in turns. In each turn, run gives perTurn durations of each row to
// the clock, and returns a reason for each failure.
func (b *bench) runSuite(ctx context.Context, name, what string, perTurn int,
	run func(ctx context.Context, s *criServer, tell clock) ([]string, error)) error {
	one := &suite{Name: name, What: what, Failed: map[string][]string{}, samples: b.plan.suiteTurns * perTurn}
	before, pods := cgroups.Find(containerdPods), map[string][]string{}
	servers := b.serversNamed(slices.Concat([]string{nameCriadapter}, suitePeers())...)
	// The first life on a server loads the sandbox image and makes the bridge.
	for _, s := range servers {
		err := s.cycle(ctx, "first", noClock)
		if err == nil {
			pods[s.name], err = s.podIDs(ctx)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		b.suites.Versions[s.name] = b.result.Versions[s.name]
	}
	err := turns(b.plan.suiteTurns, len(servers), func(_, i int) error {
		s := servers[i]
		failed, err := run(ctx, s, one.times.clock(s.name))
		left, listErr := s.removeLeft(context.WithoutCancel(ctx), pods[s.name])
		if err := errors.Join(err, listErr); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		if failed = append(failed, left...); len(failed) > 0 {
			one.Failed[s.name] = append(one.Failed[s.name], failed...)
		}
		return nil
	})
	one.conclude()
	b.suites.Suites = append(b.suites.Suites, one)
	for _, cgroup := range cgroups.Find(containerdPods) {
		if !slices.Contains(before, cgroup) {
			_ = os.Remove(cgroup) // a cgroup with pods stays
		}
	}
	return err
}

// clock adds times to the column of a server.
func (t *table) clock(server string) clock {
	return func(row string, took time.Duration) { t.add(row, server, took) }
}

// podIDs returns the ids of all pods.
func (s *criServer) podIDs(ctx context.Context) ([]string, error) {
	pods, err := s.runtime.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{})
	var ids []string
	for _, p := range pods.GetItems() {
		ids = append(ids, p.GetId())
	}
	return ids, err
}

// removeLeft removes all pods but the ones in before, and returns a reason of failure for each.
func (s *criServer) removeLeft(ctx context.Context, before []string) (reasons []string, err error) {
	ids, err := s.podIDs(ctx)
	for _, id := range ids {
		if slices.Contains(before, id) {
			continue
		}
		reason := "it left the pod " + id
		if err := s.remove(ctx, &pod{id: id}); err != nil {
			reason += ", which cannot be removed: " + err.Error()
		}
		reasons = append(reasons, reason)
	}
	return reasons, err
}

// conclude computes the rows from the durations of all turns.
func (s *suite) conclude() {
	for _, name := range s.times.rows {
		row := suiteRow{Name: name, Median: map[string]float64{}, Ratios: map[string]float64{}}
		cells := s.times.cells[name]
		for server, times := range cells {
			row.Median[server] = milliseconds(times.quantile(0.5))
		}
		for _, peer := range suitePeers() {
			// A failed run adds no times. After it, an index no longer means the same turn on both servers.
			if len(cells[nameCriadapter]) == s.samples && len(cells[peer]) == s.samples {
				row.Ratios[peer] = s.times.ratio(name, nameCriadapter, peer)
			}
		}
		s.Rows = append(s.Rows, row)
	}
}

// report prints the suites and writes them to their file. It fails if something failed on criadapter.
func (s *suites) report(out io.Writer) error {
	fmt.Fprintln(out, measured(s.Engine, s.Versions))
	var errs []error
	for _, one := range s.Suites {
		errs = append(errs, one.print(out))
		if failed := one.Failed[nameCriadapter]; len(failed) > 0 {
			errs = append(errs, fmt.Errorf("%s: %d failures, the first: %s", one.Name, len(failed), failed[0]))
		}
	}
	return errors.Join(append(errs, program.WriteJSON(resultFile("suites", s.Engine), s))...)
}

// print writes a row for each figure, with a column for each server and each ratio.
func (s *suite) print(out io.Writer) error {
	fmt.Fprintf(out, "\n%s: %s\n", s.Name, s.What)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	servers := slices.Concat([]string{nameCriadapter}, suitePeers())
	fmt.Fprintf(w, "\t%s\tto %s\t\n", strings.Join(servers, "\t"), strings.Join(suitePeers(), "\tto "))
	for _, row := range s.Rows {
		fmt.Fprintf(w, "%s\t%s%s\n", row.Name, figures(row.Median, servers), figures(row.Ratios, suitePeers()))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, server := range slices.Sorted(maps.Keys(s.Failed)) {
		for _, reason := range s.Failed[server] {
			fmt.Fprintf(out, "%s failed: %s\n", server, reason)
		}
	}
	return nil
}

// figures writes values with three digits, each with a tab behind it, and a dash for a value that is not there.
func figures(values map[string]float64, names []string) string {
	var cells strings.Builder
	for _, name := range names {
		text := "–"
		if value, ok := values[name]; ok {
			text = threeDigits(value)
		}
		cells.WriteString(text + "\t")
	}
	return cells.String()
}

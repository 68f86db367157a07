package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/criadapter/criadapter/test/cluster/build"
	"github.com/criadapter/criadapter/test/cluster/single"
	"github.com/criadapter/criadapter/test/critest/report"
	"github.com/criadapter/criadapter/test/rig/cache"
	"github.com/criadapter/criadapter/test/rig/images"
	"github.com/criadapter/criadapter/test/rig/registry"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// examine is the part of the program that runs inside the rig. It runs the specs and judges their result.
func examine(ctx context.Context, env rigenv.Env, chosen set, opts options) (err error) {
	programs, err := build.WithSpecsFromEnviron(os.Getenv)
	if err != nil {
		return err
	}
	dir, err := opts.reportDir(env, chosen)
	if err != nil {
		return err
	}
	listed, err := opts.readExpected(chosen)
	if err != nil {
		return err
	}
	made, err := specImages(ctx, programs)
	if err != nil {
		return err
	}
	pulls, err := registry.Start(ctx, made)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, pulls.Close()) }()
	cluster, err := opts.startCluster(ctx, env, programs, chosen, dir, pulls.Addr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.close()) }()
	expected, err := cluster.expected(ctx, listed)
	if err != nil {
		return err
	}
	var leftOut []string
	if opts.focus == "" { // -focus may ask for a spec that is left out
		leftOut = expected.LeftOut()
	}
	began := time.Now()
	specs, err := runSpecs(ctx, suite{
		programs: programs, cluster: cluster, registry: pulls.Addr, set: chosen, leftOut: leftOut, dir: dir,
		processes: opts.processes, timeout: opts.timeout,
	})
	if err != nil {
		return err
	}
	took := time.Since(began)
	calls, err := cluster.calls(ctx)
	if err != nil {
		return err
	}
	return opts.judge(env, finished{set: chosen, leftOut: leftOut, specs: specs, took: took, calls: calls}, expected)
}

// specImages makes the images that the specs pull.
func specImages(ctx context.Context, programs build.Programs) (map[string]v1.Image, error) {
	dir, err := cache.Dir()
	if err != nil {
		return nil, err
	}
	made, err := images.Specs(ctx, dir, programs.Agnhost)
	if err != nil {
		return nil, fmt.Errorf("the images of the specs: %w", err)
	}
	return made, nil
}

// runName names a run by its set. The engine, the kind of pods, the server and the kubelet are part of the name if they
// are not the default.
func (o options) runName(env rigenv.Env, chosen set) string {
	name := chosen.name
	for _, part := range []struct{ is, usual string }{
		{env.Engine, "installed"}, {env.Mode, ""}, {o.server, single.Criadapter},
		{"kubelet-" + o.kubelet, "kubelet-" + build.Release}, {o.node, single.Kubelet},
	} {
		if part.is != part.usual {
			name += "-" + filepath.Base(part.is)
		}
	}
	return name
}

// judge prints how the specs ended. It fails if they did not end as the list expects. The list holds only for
// criadapter. For another server, judge prints the differences and does not fail.
func (o options) judge(env rigenv.Env, f finished, expected report.Expected) error {
	specs, others := f.chosen()
	if len(specs) == 0 {
		return errors.New("no spec ran")
	}
	verdict := report.Judge("conformance", specs, expected.Without(others))
	if err := o.keep(env, f, verdict); err != nil {
		return err
	}
	fmt.Print(longest(specs))
	fmt.Print(verdict)
	err := verdict.Err(len(specs))
	if o.server != single.Criadapter && err != nil {
		fmt.Println(err)
		return nil
	}
	return err
}

// longest lists the five slowest specs.
func longest(specs []report.Spec) string {
	sorted := slices.SortedFunc(slices.Values(specs), func(a, b report.Spec) int { return cmp.Compare(b.Took, a.Took) })
	var text strings.Builder
	for _, spec := range sorted[:min(5, len(sorted))] {
		fmt.Fprintf(&text, "%4.0f s %s\n", spec.Took.Seconds(), spec.Name)
	}
	return text.String()
}

// readExpected reads the list, without the entries for other kubelets and for the other suite.
func (o options) readExpected(chosen set) (report.Expected, error) {
	files, release := []string{o.expected}, o.kubelet
	if o.node == single.KubeletCore {
		files, release = append(files, o.coreExpected), ""
	}
	all, err := report.ReadExpected(files...)
	suite := report.ClusterSuite
	if chosen.node {
		suite = report.NodeSuite
	}
	return all.WithKubelet(release).OfSuite(suite), err
}

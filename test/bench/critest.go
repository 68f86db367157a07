package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/criadapter/criadapter/test/critest/registry"
	"github.com/criadapter/criadapter/test/critest/report"
	"github.com/criadapter/criadapter/test/program"
)

// critestGrace is how long critest gets to remove its pods after an interrupt.
const critestGrace = 30 * time.Second

// critestParams are the parameters of critest's benchmarks. The last two are limits, in seconds: a benchmark that
// exceeds its limit fails.
const critestParams = `podsNumber: %[1]d
containersNumber: %[1]d
imagesNumber: %[1]d
imageBenchmarkTimeoutSeconds: 60
podContainerStartBenchmarkTimeoutSeconds: 60
`

// critestFiles returns the files that the benchmarks write, in the order of the table.
func critestFiles() []string {
	return []string{"pod_benchmark_data.json", "container_benchmark_data.json", "image_lifecycle_benchmark_data.json",
		"image_listing_benchmark_data.json"}
}

// critestData is the content of a file that a benchmark writes.
type critestData struct {
	OperationsNames []string
	Datapoints      []struct {
		OperationsDurationsNs []time.Duration
	}
}

func buildCritest(ctx context.Context) error {
	_, err := registry.Critest(ctx)
	return err
}

// measureCritest runs critest's own benchmarks.
func (b *bench) measureCritest(ctx context.Context) error {
	critest, err := registry.Critest(ctx)
	if err != nil {
		return err
	}
	stop, err := registry.Serve(b.env.Registry)
	if err != nil {
		return err
	}
	defer stop()
	what := fmt.Sprintf("one call, median in milliseconds (turns: %d; pods, containers, images in each: %d)",
		b.plan.suiteTurns, b.plan.lifecycles)
	return b.runSuite(ctx, "critest "+critest.Version+" -benchmark", what, b.plan.lifecycles,
		func(ctx context.Context, s *criServer, tell clock) ([]string, error) {
			dir, err := os.MkdirTemp(b.dir, "critest")
			if err != nil {
				return nil, err
			}
			failed, err := s.runCritest(ctx, critest.Path, dir, b.plan.lifecycles)
			if err != nil {
				return nil, err
			}
			return failed, tellCritest(dir, b.plan.lifecycles, len(failed) > 0, tell)
		})
}

// runCritest runs the benchmarks once, with their files in dir, and returns the failed ones with their reasons.
func (s *criServer) runCritest(ctx context.Context, path, dir string, lifecycles int) (failed []string, err error) {
	params := filepath.Join(dir, "params.yaml")
	if err := os.WriteFile(params, fmt.Appendf(nil, critestParams, lifecycles), 0o644); err != nil {
		return nil, err
	}
	run := report.Suite{Program: path, Dir: dir, Report: filepath.Join(dir, "critest.json"),
		Log: filepath.Join(dir, "critest.log"), Grace: critestGrace}
	run.Args = []string{"-benchmark", "-runtime-endpoint=" + s.endpoint, "-image-endpoint=" + s.endpoint,
		"-benchmarking-params-file=" + params, "-benchmarking-output-dir=" + dir, "-ginkgo.json-report=" + run.Report,
		"-ginkgo.no-color", "-ginkgo.timeout=30m", "-ginkgo.seed=1"}
	specs, err := run.Run(ctx)
	for _, spec := range specs {
		if spec.Outcome == report.Failed {
			failed = append(failed, spec.Name+": "+spec.Message)
		}
	}
	return failed, err
}

// tellCritest gives the times in the benchmarks' files to the clock. A failed benchmark writes no file.
func tellCritest(dir string, lifecycles int, failed bool, tell clock) error {
	for _, name := range critestFiles() {
		data, err := program.ReadJSON[critestData](filepath.Join(dir, name))
		if failed && errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if n := len(data.Datapoints); !failed && n != lifecycles {
			return fmt.Errorf("%s has %d lives, want %d", name, n, lifecycles)
		}
		for _, point := range data.Datapoints {
			if n := len(point.OperationsDurationsNs); n != len(data.OperationsNames) {
				return fmt.Errorf("%s has %d times of the operations %q", name, n, data.OperationsNames)
			}
			for i, took := range point.OperationsDurationsNs {
				tell(data.OperationsNames[i], took)
			}
		}
	}
	return nil
}

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/criadapter/criadapter/test/rig/engine/build"
)

const (
	// stressGrace is how long a run of containerd-stress may take beyond its duration.
	stressGrace = 2 * time.Minute
	// stressFailure is in the line that containerd-stress logs for a failed RunPodSandbox. The failures in its JSON
	// output are always 0.
	stressFailure = "running container"
)

// stressResult has the needed fields of the JSON output of containerd-stress.
type stressResult struct{ SecondsPerContainer float64 }

func buildStress(ctx context.Context) error {
	_, err := build.NewStress(ctx)
	return err
}

// measureStress runs the CRI workers of containerd-stress. Each worker makes, stops and removes one pod after the
// other. The pods have no containers.
func (b *bench) measureStress(ctx context.Context) error {
	stress, err := build.NewStress(ctx)
	if err != nil {
		return err
	}
	what := fmt.Sprintf("time of a run of %s divided by its pods, median in milliseconds (turns: %d)",
		b.plan.stress, b.plan.suiteTurns)
	return b.runSuite(ctx, "containerd-stress "+stress.Version, what, 1,
		func(ctx context.Context, s *criServer, tell clock) (all []string, err error) {
			for _, workers := range []int{1, 4} {
				perPod, failed, err := runStress(ctx, stress.Path, s.endpoint, workers, b.plan.stress)
				if err != nil {
					return nil, err
				}
				if len(failed) == 0 { // perPod also counts failed pods
					tell(fmt.Sprintf("workers: %d", workers), perPod)
				}
				all = append(all, failed...)
			}
			return all, nil
		})
}

// runStress returns the time of one run divided by the number of its pods.
func runStress(ctx context.Context, path, endpoint string, workers int, duration time.Duration) (
	perPod time.Duration, failed []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, duration+stressGrace)
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, path, "--cri", "--json", "--address", endpoint, "--runtime", "",
		"--concurrent", strconv.Itoa(workers), "--duration", duration.String())
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &stdout, &stderr, time.Second
	if err := cmd.Run(); err != nil {
		return 0, nil, fmt.Errorf("containerd-stress: %w\n%s", err, stderr.String())
	}
	for line := range strings.Lines(stderr.String()) {
		if strings.Contains(line, stressFailure) {
			failed = append(failed, strings.TrimSpace(line))
		}
	}
	var result stressResult
	if err := json.Unmarshal(stdout.Bytes(), &result); err != nil {
		return 0, nil, fmt.Errorf("containerd-stress: %w\n%s", err, stdout.String())
	}
	return time.Duration(result.SecondsPerContainer * float64(time.Second)), failed, nil
}

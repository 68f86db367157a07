package chaos

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/footprint"
)

// uses are the figures in the order of the output. The mean of the last third of the samples may exceed the mean of the
// first third, a, by a*part + amount. Some growth is allowed, because the Go runtime does not return memory at once.
var uses = []struct {
	name         string
	part, amount float64
	format       string
}{
	{name: footprint.ResidentMemory, part: 0.15, amount: 4, format: "%.1f"},
	{name: footprint.Goroutines, part: 0.1, amount: 10, format: "%.0f"},
	{name: footprint.Descriptors, part: 0.1, amount: 5, format: "%.0f"},
	{name: footprint.Threads, part: 0.1, amount: 5, format: "%.0f"},
	{name: footprint.Mounts, part: 0.1, amount: 5, format: "%.0f"},
	{name: footprint.StateOnDisk, part: 0.1, amount: 20, format: "%.1f"},
}

// TestChurn has eight kubelets create, use, list and remove pods for the time in CHURN, such as 15m. No figure grows by
// more than uses allows.
func TestChurn(t *testing.T) {
	needsTime(t)
	env := ownEngine(t)
	metrics := newMetrics(t, env)
	c := newChurned(t, env, env, 8, metrics.Flag())
	ctx, cancel := context.WithTimeout(t.Context(), chaosTime(t))
	defer cancel()
	for _, k := range c.kubelets {
		k.looks = true
	}
	began := time.Now()
	churned := make(chan int)
	go func() { churned <- c.churn(ctx) }()
	var samples []footprint.Figures
	for ctx.Err() == nil {
		pause(ctx, 500*time.Millisecond, nil)
		one, err := footprint.Sample(t.Context(), c.server, metrics)
		testutil.Must(t, err)
		samples = append(samples, one)
	}
	pods := <-churned
	third := len(samples) / 3
	testutil.Require(t, third > 0, "CHURN is too short for three samples")
	first, last := mean(samples[:third]), mean(samples[len(samples)-third:])
	fmt.Printf(
		"churn: %d pods in %v, answers that were errors:%s\n| what | first third | last third |\n|---|---|---|\n",
		pods, time.Since(began).Round(time.Second), countsOf(c.codes))
	for _, use := range uses {
		a, b := first[use.name], last[use.name]
		fmt.Printf("| %s | "+use.format+" | "+use.format+" |\n", use.name, a, b)
		testutil.Assert(t, b <= a*(1+use.part)+use.amount,
			"%s: %.1f in the first third, %.1f in the last", use.name, a, b)
	}
	if pods == 0 || len(c.codes) != 0 {
		t.Errorf("%d pods; errors:%s", pods, countsOf(c.codes))
	}
	c.judge()
}

// look asks the server for stats, metrics, its status and the images, as kubelets and monitoring do.
func (k *kubelet) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_, stats := k.runtime().ListPodSandboxStats(ctx, &runtimeapi.ListPodSandboxStatsRequest{})
	_, own := k.runtime().ContainerStats(ctx, &runtimeapi.ContainerStatsRequest{ContainerId: k.lastContainer})
	_, metrics := k.runtime().ListPodSandboxMetrics(ctx, &runtimeapi.ListPodSandboxMetricsRequest{})
	_, status := k.runtime().Status(ctx, &runtimeapi.StatusRequest{Verbose: true})
	_, images := k.images().ListImages(ctx, &runtimeapi.ListImagesRequest{})
	return errors.Join(stats, own, metrics, status, images)
}

func mean(samples []footprint.Figures) footprint.Figures {
	sum := footprint.Figures{}
	for _, s := range samples {
		for name, value := range s {
			sum[name] += value / float64(len(samples))
		}
	}
	return sum
}

package chaos

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/test/rig/adapter"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// figures are what a server uses, by the name of what.
type figures map[string]float64

// uses are the figures in the order in which they are shown, each with how much more of it may be there in the last third
// than in the first: a part of it, and an amount. Memory that the Go runtime keeps is not given back at once.
var uses = []struct {
	name         string
	part, amount float64
	format       string
}{
	{name: "resident memory, MB", part: 0.15, amount: 4, format: "%.1f"},
	{name: "goroutines", part: 0.1, amount: 10, format: "%.0f"},
	{name: "descriptors", part: 0.1, amount: 5, format: "%.0f"},
	{name: "threads", part: 0.1, amount: 5, format: "%.0f"},
	{name: "mounts", part: 0.1, amount: 5, format: "%.0f"},
	{name: "state on disk, kB", part: 0.1, amount: 20, format: "%.1f"},
}

// TestChurn has eight workers create pods, look at them, run commands in them, list, and remove them again, for a while.
// In the last third the server uses what it did in the first. CHURN=15m says for how long.
func TestChurn(t *testing.T) {
	needsTime(t)
	env := rigenv.Require(t)
	newEngine(t, &env, true)
	metrics := newMetrics(t, env)
	c := newChurned(t, env, env, 8, metrics.flag())
	ctx, cancel := context.WithTimeout(t.Context(), chaosTime(t))
	defer cancel()
	for _, k := range c.kubelets {
		k.looks = true
	}
	began := time.Now()
	churned := make(chan int)
	go func() { churned <- c.churn(ctx) }()
	var samples []figures
	for ctx.Err() == nil {
		pause(ctx, 500*time.Millisecond, nil)
		samples = append(samples, sample(t, c.server, metrics))
	}
	pods := <-churned
	third := len(samples) / 3
	first, last := mean(samples[:third]), mean(samples[len(samples)-third:])
	fmt.Printf("churn: %d pods in %v, answers that were errors:%s\n| what | first third | last third |\n|---|---|---|\n",
		pods, time.Since(began).Round(time.Second), countsOf(c.codes))
	for _, use := range uses {
		a, b := first[use.name], last[use.name]
		fmt.Printf("| %s | "+use.format+" | "+use.format+" |\n", use.name, a, b)
		if b > a*(1+use.part)+use.amount {
			t.Errorf("%s: %.1f in the first third, %.1f in the last", use.name, a, b)
		}
	}
	if pods == 0 || len(c.codes) != 0 {
		t.Errorf("%d pods; errors:%s", pods, countsOf(c.codes))
	}
	c.judge()
}

// look does with a running pod what kubelets and people do.
func (k *kubelet) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_, stats := k.runtime().ListPodSandboxStats(ctx, &runtimeapi.ListPodSandboxStatsRequest{})
	_, own := k.runtime().ContainerStats(ctx, &runtimeapi.ContainerStatsRequest{ContainerId: k.toldContainer})
	_, metrics := k.runtime().ListPodSandboxMetrics(ctx, &runtimeapi.ListPodSandboxMetricsRequest{})
	_, status := k.runtime().Status(ctx, &runtimeapi.StatusRequest{Verbose: true})
	_, images := k.images().ListImages(ctx, &runtimeapi.ListImagesRequest{})
	return errors.Join(stats, own, metrics, status, images)
}

// sample measures a server.
func sample(t *testing.T, server *adapter.Server, metrics *metrics) figures {
	pid := strconv.Itoa(server.PID())
	status, err := os.ReadFile("/proc/" + pid + "/status")
	if err != nil {
		t.Error(err)
	}
	descriptors, _ := os.ReadDir("/proc/" + pid + "/fd")
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	return figures{
		"resident memory, MB": statusField(string(status), "VmRSS:") / 1024,
		"goroutines":          metrics.value("go_goroutines"),
		"descriptors":         float64(len(descriptors)),
		"threads":             statusField(string(status), "Threads:"),
		"mounts":              float64(strings.Count(string(mounts), "\n")),
		"state on disk, kB":   float64(sizeOf(server.RootDir)) / 1024,
	}
}

// statusField is a figure of a process.
func statusField(status, name string) float64 {
	_, rest, _ := strings.Cut(status, name)
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return 0
	}
	value, _ := strconv.ParseFloat(fields[0], 64)
	return value
}

// sizeOf adds up files, of which some may go meanwhile.
func sizeOf(dir string) (sum int64) {
	_ = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			if info, err := entry.Info(); err == nil {
				sum += info.Size()
			}
		}
		return nil
	})
	return sum
}

func mean(samples []figures) figures {
	sum := figures{}
	for _, s := range samples {
		for name, value := range s {
			sum[name] += value / float64(len(samples))
		}
	}
	return sum
}

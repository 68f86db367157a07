package stats

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/test/rig/adapter"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

const (
	// pods and containers are how many pods, and containers in each,
	// the figures are asked of: 120 running containers.
	pods, containers = 10, 12
	// containerdMilliseconds is what ListContainerStats of as many containers
	// takes with the containerd 1.6 of Debian 12, on the machine that the goal
	// was set on.
	containerdMilliseconds = 178.0
)

// BenchmarkListContainerStats times ListContainerStats over the CRI socket with
// 120 running containers, and counts the CPU time that the server spends on it.
// The calls are a tenth of a second apart, as no client asks more often.
func BenchmarkListContainerStats(b *testing.B) {
	env := rigenv.Require(b)
	server := adapter.ForTest(b, adapter.Options{Env: env, Flags: []string{"--log-level=info"}})
	runContainers(b, server, env)
	if list := listStats(b, server); len(list) < pods*containers {
		b.Fatalf("%d containers have figures, want %d", len(list), pods*containers)
	}

	var took []float64
	begun := processCPU(b, server.PID())
	for b.Loop() {
		time.Sleep(100 * time.Millisecond)
		start := time.Now()
		listStats(b, server)
		took = append(took, time.Since(start).Seconds()*1000)
	}
	cpu := (processCPU(b, server.PID()) - begun).Seconds() * 1000 / float64(len(took))
	slices.Sort(took)
	median := took[len(took)/2]
	b.ReportMetric(median, "ms/ListContainerStats")
	b.ReportMetric(cpu, "CPU-ms/ListContainerStats")
	fmt.Printf("ListContainerStats of %d containers: median %.2f ms, CPU %.2f ms\n", pods*containers, median, cpu)
	fmt.Printf("ratio list-container-stats-to-containerd-as-recorded %.3f goal %.2f\n", median/containerdMilliseconds, 0.1)
}

func listStats(b *testing.B, server *adapter.Server) []*runtimeapi.ContainerStats {
	b.Helper()
	list, err := server.Runtime.ListContainerStats(b.Context(), &runtimeapi.ContainerStatsFilter{})
	if err != nil {
		b.Fatal(err)
	}
	return list
}

// runContainers runs the pods and containers, which are removed when the
// benchmark ends.
func runContainers(b *testing.B, server *adapter.Server, env rigenv.Env) {
	b.Helper()
	image := env.Image("test/busybox:latest")
	if _, err := server.Images.PullImage(b.Context(), &runtimeapi.ImageSpec{Image: image}, nil, nil); err != nil {
		b.Fatal(err)
	}
	for i := range pods {
		pod := podConfig(fmt.Sprintf("stats-%d", i))
		id, err := server.Runtime.RunPodSandbox(b.Context(), pod, "")
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { removePod(b, server, id) })
		for j := range containers {
			runSleeper(b, server, id, pod, fmt.Sprintf("sleeper-%d", j), image)
		}
	}
}

func runSleeper(b *testing.B, server *adapter.Server, podID string, pod *runtimeapi.PodSandboxConfig, name, image string) {
	b.Helper()
	id, err := server.Runtime.CreateContainer(b.Context(), podID, &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: name},
		Image:    &runtimeapi.ImageSpec{Image: image},
		Command:  []string{"sleep", "3600"},
		Linux:    &runtimeapi.LinuxContainerConfig{},
	}, pod)
	if err != nil {
		b.Fatal(err)
	}
	if err := server.Runtime.StartContainer(b.Context(), id); err != nil {
		b.Fatal(err)
	}
}

func podConfig(name string) *runtimeapi.PodSandboxConfig {
	return &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: name, Namespace: "bench", Uid: "uid-" + name},
		Hostname: "bench",
		Linux:    &runtimeapi.LinuxPodSandboxConfig{},
	}
}

// removePod removes a pod when the benchmark's own context is over.
func removePod(b *testing.B, server *adapter.Server, id string) {
	ctx := context.WithoutCancel(b.Context())
	if err := server.Runtime.StopPodSandbox(ctx, id); err != nil {
		b.Error(err)
	}
	if err := server.Runtime.RemovePodSandbox(ctx, id); err != nil {
		b.Error(err)
	}
}

// processCPU is the CPU time that a process has used. Its unit is a hundredth
// of a second, so it takes many calls to say something of one.
func processCPU(tb testing.TB, pid int) time.Duration {
	tb.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		tb.Fatal(err)
	}
	// The second field is a name in parentheses, which may hold spaces.
	_, rest, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(rest)
	const user, system, hertz = 11, 12, 100
	ticks := 0
	for _, field := range []int{user, system} {
		n, err := strconv.Atoi(fields[field])
		if err != nil {
			tb.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * time.Second / hertz
}

package bench

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/test/rig/adapter"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// BenchmarkRunPodSandbox compares RunPodSandbox over the CRI socket with the
// same done by hand: the ordinary way (network mode none) and the best way
// (network disabled). Each iteration does all three in turn; the ratios are
// medians over the iterations.
func BenchmarkRunPodSandbox(b *testing.B) {
	env := rigenv.Require(b)
	server := adapter.ForTest(b, adapter.Options{Env: env, Flags: []string{"--log-level=info"}})
	ordinary, best := newRaw(b, env, server), newRaw(b, env, server)
	best.disabled = true

	measure := func(i int) (ours, theirs, floor time.Duration) {
		ours = timePod(b, server, fmt.Sprintf("bench-%d", i))
		theirs = timeRaw(b, ordinary, fmt.Sprintf("bench-ordinary-%d-%d", server.PID(), i))
		floor = timeRaw(b, best, fmt.Sprintf("bench-best-%d-%d", server.PID(), i))
		return ours, theirs, floor
	}
	measure(0) // loads the sandbox image, makes the bridge
	var toOrdinary, toBest []float64
	var sum time.Duration
	for i := 1; b.Loop(); i++ {
		ours, theirs, floor := measure(i)
		sum += ours
		toOrdinary = append(toOrdinary, ours.Seconds()/theirs.Seconds())
		toBest = append(toBest, ours.Seconds()/floor.Seconds())
	}
	b.ReportMetric(sum.Seconds()*1000/float64(len(toBest)), "ms/RunPodSandbox")
	report(b, "run-to-ordinary-raw", toOrdinary, 0.8)
	report(b, "run-to-best-raw", toBest, 1.15)
}

// report prints the median as a line of its own and as a metric.
func report(b *testing.B, name string, ratios []float64, goal float64) {
	slices.Sort(ratios)
	median := ratios[len(ratios)/2]
	b.ReportMetric(median, name)
	fmt.Printf("ratio %s %.3f goal %.2f\n", name, median, goal)
}

// timePod times one RunPodSandbox and removes the pod.
func timePod(b *testing.B, server *adapter.Server, name string) time.Duration {
	b.Helper()
	began := time.Now()
	id, err := server.Runtime.RunPodSandbox(b.Context(), podConfig(name), "")
	took := time.Since(began)
	if err != nil {
		b.Fatal(err)
	}
	defer removePod(b, server, id)
	status, err := server.Runtime.PodSandboxStatus(b.Context(), id, false)
	if err != nil {
		b.Fatal(err)
	}
	if err := answers(status.GetStatus().GetNetwork().GetIp()); err != nil {
		b.Fatal(err)
	}
	return took
}

func timeRaw(b *testing.B, r raw, name string) time.Duration {
	b.Helper()
	began := time.Now()
	pod, err := r.run(b.Context(), name)
	took := time.Since(began)
	defer func() {
		if err := r.remove(context.WithoutCancel(b.Context()), pod); err != nil {
			b.Error(err)
		}
	}()
	if err != nil {
		b.Fatal(err)
	}
	if err := answers(pod.ip); err != nil {
		b.Fatal(err)
	}
	return took
}

func removePod(tb testing.TB, server *adapter.Server, id string) {
	tb.Helper()
	ctx := context.WithoutCancel(tb.Context())
	if err := server.Runtime.StopPodSandbox(ctx, id); err != nil {
		tb.Error(err)
	}
	if err := server.Runtime.RemovePodSandbox(ctx, id); err != nil {
		tb.Error(err)
	}
}

func podConfig(name string) *runtimeapi.PodSandboxConfig {
	return &runtimeapi.PodSandboxConfig{
		Metadata:  &runtimeapi.PodSandboxMetadata{Name: name, Namespace: "bench", Uid: "uid-" + name},
		Hostname:  "bench",
		DnsConfig: &runtimeapi.DNSConfig{Servers: []string{"10.96.0.10"}, Searches: []string{"svc.cluster.local"}},
		Linux:     &runtimeapi.LinuxPodSandboxConfig{},
	}
}

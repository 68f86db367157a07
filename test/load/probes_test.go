package main

import (
	"math"
	"testing"
	"time"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestPlanProbes(t *testing.T) {
	for pods, want := range map[int]struct {
		plan      probePlan
		perMinute float64
	}{
		100: {probePlan{100, 6}, 1000},
		110: {probePlan{100, 6}, 1000},
		40:  {probePlan{33, 2}, 990},
		20:  {probePlan{17, 1}, 1020},
		5:   {probePlan{5, 1}, 300},
	} {
		if plan := planProbes(1000, pods); plan != want.plan || plan.perMinute() != want.perMinute {
			t.Errorf("%d pods: %+v, %v a minute, want %+v", pods, plan, plan.perMinute(), want)
		}
	}
}

const (
	probesBefore = `# TYPE prober_probe_total counter
prober_probe_total{container="main",namespace="load",pod="a",pod_uid="1",probe_type="Liveness",result="successful"} 10
`
	probesAfter = `# TYPE prober_probe_duration_seconds histogram
prober_probe_duration_seconds_bucket{container="main",namespace="load",pod="a",probe_type="Liveness",le="+Inf"} 4
prober_probe_duration_seconds_sum{container="main",namespace="load",pod="a",probe_type="Liveness"} 0.2
prober_probe_duration_seconds_count{container="main",namespace="load",pod="a",probe_type="Liveness"} 4
# TYPE prober_probe_total counter
prober_probe_total{container="main",namespace="load",pod="a",pod_uid="1",probe_type="Liveness",result="successful"} 12
prober_probe_total{container="main",namespace="load",pod="b",pod_uid="2",probe_type="Liveness",result="successful"} 2
prober_probe_total{container="main",namespace="load",pod="b",pod_uid="2",probe_type="Liveness",result="failed"} 1
`
)

// Probes of all pods are counted since the previous count.
func TestProbesSince(t *testing.T) {
	before, err := parseProbes(probesBefore)
	testutil.Must(t, err)
	after, err := parseProbes(probesAfter)
	testutil.Must(t, err)
	got := after.minus(before, 30*time.Second)
	testutil.Assert(t, got.PerMinute == 10 && got.Failed == 1 && math.Abs(got.Mean-0.05) <= 1e-9,
		"%+v, want 10 a minute, 1 failed, 50 ms each", got)
	got = after.minus(after, time.Minute)
	testutil.Assert(t, *got == (probed{}), "without any: %+v", got)
	_, err = parseProbes("no metrics {")
	testutil.Assert(t, err != nil, "text that is no metrics gives no error")
}

package main

import (
	"context"
	"strings"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/internal/pace"
	"github.com/criadapter/criadapter/test/cluster/single"
)

// probePlan is the number of probed pods, and the period of their probes.
type probePlan struct {
	pods   int
	period int // whole seconds, as in a probe
}

// planProbes spreads perMinute probes a minute over the pods. It plans fewer pods if all of them would make more
// probes.
func planProbes(perMinute, pods int) probePlan {
	period := max(1, pods*60/perMinute)
	return probePlan{pods: min(pods, (perMinute*period+30)/60), period: period}
}

func (p probePlan) perMinute() float64 { return float64(p.pods) * 60 / float64(p.period) }

// probedPod is a pod whose liveness probe runs a command. A liveness probe does not keep the pod from being Ready. A
// container is restarted only after three probes in a row of more than five seconds each.
func probedPod(image string, plan probePlan) v1.PodSpec {
	spec := plainPod(image)
	spec.Containers[0].Command = []string{"sleep", "1d"}
	spec.Containers[0].LivenessProbe = &v1.Probe{
		ProbeHandler:   v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"true"}}},
		PeriodSeconds:  int32(plan.period),
		TimeoutSeconds: 5, FailureThreshold: 3,
	}
	return spec
}

// probes measures while the kubelet runs commands in the phase's own pods. It makes these pods before the measurement
// and deletes them afterwards.
func (n *node) probes(ctx context.Context, m *measured) error {
	plan := n.opts.probePlan()
	if err := n.fill(ctx, plan.pods, n.probed); err != nil {
		return err
	}
	if err := pace.Sleep(ctx, settle+time.Duration(plan.period)*time.Second); err != nil {
		return err
	}
	err := n.observe(ctx, m, func() error {
		before, err := n.countProbes(ctx)
		if err != nil {
			return err
		}
		start := time.Now()
		if err := pace.Sleep(ctx, n.opts.probed); err != nil {
			return err
		}
		after, err := n.countProbes(ctx)
		m.Probes = after.minus(before, time.Since(start))
		return err
	})
	if err != nil {
		return err
	}
	return n.empty(ctx)
}

// probeCount has the kubelet's counts of probes by result, and the number and sum of the times of successful probes.
type probeCount struct {
	results map[string]float64
	timed   uint64
	seconds float64
}

// countProbes reads the kubelet's metrics, which count every probe whatever the CRI server is.
func (n *node) countProbes(ctx context.Context) (probeCount, error) {
	text, err := n.Plane.Kubectl(ctx, "get", "--raw", "/api/v1/nodes/"+single.NodeName+"/proxy/metrics/probes")
	if err != nil {
		return probeCount{}, err
	}
	return parseProbes(text)
}

func parseProbes(text string) (probeCount, error) {
	count := probeCount{results: make(map[string]float64)}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		return count, err
	}
	for _, metric := range families["prober_probe_total"].GetMetric() {
		for _, label := range metric.GetLabel() {
			if label.GetName() == "result" {
				count.results[label.GetValue()] += metric.GetCounter().GetValue()
			}
		}
	}
	for _, metric := range families["prober_probe_duration_seconds"].GetMetric() {
		count.timed += metric.GetHistogram().GetSampleCount()
		count.seconds += metric.GetHistogram().GetSampleSum()
	}
	return count, nil
}

// minus returns the difference to an earlier count, made d ago.
func (c probeCount) minus(earlier probeCount, d time.Duration) *probed {
	p := &probed{}
	all := 0.0
	for result, n := range c.results {
		all += n - earlier.results[result]
		if result != "successful" {
			p.Failed += int(n - earlier.results[result])
		}
	}
	p.PerMinute = all / d.Minutes()
	if timed := c.timed - earlier.timed; timed > 0 {
		p.Mean = (c.seconds - earlier.seconds) / float64(timed)
	}
	return p
}

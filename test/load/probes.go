package main

import (
	"context"
	"strings"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/test/cluster/single"
	"github.com/criadapter/criadapter/test/program"
)

// probePlan is how many pods have their command run how often.
type probePlan struct {
	pods   int
	period int // whole seconds, as a probe's is
}

// planProbes spreads that many probes a minute over the pods, or over some of them if they would be too many.
func planProbes(perMinute, pods int) probePlan {
	period := max(1, pods*60/perMinute)
	return probePlan{pods: min(pods, (perMinute*period+30)/60), period: period}
}

func (p probePlan) perMinute() float64 { return float64(p.pods) * 60 / float64(p.period) }

// probedPod is a pod whose command is run by the kubelet: a liveness probe, which does not keep it from being Ready. It
// restarts a container only after three probes in a row of more than five seconds each.
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

// probes runs commands in containers, in pods of its own that come and go before and after what is measured.
func (n *node) probes(ctx context.Context, m *measured) error {
	plan := n.opts.probePlan()
	if err := n.fill(ctx, plan.pods, n.probed); err != nil {
		return err
	}
	if err := program.Sleep(ctx, settle+time.Duration(plan.period)*time.Second); err != nil {
		return err
	}
	err := n.during(m, func() error {
		before, err := n.countProbes(ctx)
		if err != nil {
			return err
		}
		start := time.Now()
		if err := program.Sleep(ctx, n.opts.probed); err != nil {
			return err
		}
		after, err := n.countProbes(ctx)
		m.Probes = after.since(before, time.Since(start))
		return err
	})
	if err != nil {
		return err
	}
	return n.empty(ctx)
}

// probeCount is what the kubelet has counted: results of probes by their name, and how long those took that succeeded.
type probeCount struct {
	results map[string]float64
	timed   uint64
	seconds float64
}

// countProbes reads the kubelet's own metrics, which know every probe, whatever the server.
func (n *node) countProbes(ctx context.Context) (probeCount, error) {
	text, err := n.Kubectl(ctx, "get", "--raw", "/api/v1/nodes/"+single.NodeName+"/proxy/metrics/probes")
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

// since is what was counted since then, in that time.
func (c probeCount) since(then probeCount, d time.Duration) *probed {
	p := &probed{}
	all := 0.0
	for result, n := range c.results {
		all += n - then.results[result]
		if result != "successful" {
			p.Failed += int(n - then.results[result])
		}
	}
	p.PerMinute = all / d.Minutes()
	if timed := c.timed - then.timed; timed > 0 {
		p.Mean = (c.seconds - then.seconds) / float64(timed)
	}
	return p
}

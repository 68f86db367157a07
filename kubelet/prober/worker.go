package prober

import (
	"context"
	"math/rand/v2"
	"time"

	v1 "k8s.io/api/core/v1"
)

// attempts is the number of tries, without a pause, of a probe that cannot be made. The kubelet has the same value.
const attempts = 3

// startupPoll is the pause between two checks of the startup probe's result. The other probes wait for its success.
const startupPoll = 100 * time.Millisecond

// target is the container to probe.
type target struct {
	pod       *v1.Pod
	container *v1.Container
	probe     *v1.Probe
	id        string
	started   time.Time
	// ip is the address at which the pod is probed.
	ip string
}

// worker repeats one probe.
type worker struct {
	manager *Manager
	key     key
	target  target
	cancel  context.CancelFunc

	row count
}

// count is the number of equal results in a row.
type count struct {
	passed bool
	length int32
}

// run probes until ctx ends or the result is final. The success of a startup probe is final. So is the failure of a
// liveness or startup probe, which kills the container.
func (w *worker) run(ctx context.Context) {
	period := time.Duration(w.target.probe.PeriodSeconds) * time.Second
	// After a restart of the kubelet, a random delay spreads the first probes.
	if w.target.started.Before(w.manager.began) && !rest(ctx, rand.N(period)) {
		return
	}
	// The container's start may be in the future, because the clock was set back after it.
	delay := time.Duration(w.target.probe.InitialDelaySeconds) * time.Second
	if !rest(ctx, min(delay, time.Until(w.target.started.Add(delay)))) {
		return
	}
	for w.key.probe != startup && !w.manager.started(w.target) {
		if !rest(ctx, startupPoll) {
			return
		}
	}
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for {
		if done := w.probeOnce(ctx); done || ctx.Err() != nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// rest waits. It returns false if ctx ended.
func rest(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// probeOnce makes the probe and notes its result.
func (w *worker) probeOnce(ctx context.Context) (done bool) {
	began := time.Now()
	got, err := w.attempt(ctx)
	if ctx.Err() != nil {
		return true
	}
	w.manager.measured(w, got.failure, err, time.Since(began))
	if err != nil {
		w.manager.opts.Errored(w.target.pod, w.target.container.Name, w.key.probe, err.Error())
		return false
	}
	passed := got.failure == ""
	if !passed {
		w.manager.opts.Unhealthy(w.target.pod, w.target.container.Name, w.key.probe, got.failure)
	}
	if got.warning != "" {
		w.manager.opts.Warning(w.target.pod, w.target.container.Name, w.key.probe, got.warning)
	}
	if w.row.passed != passed {
		w.row = count{passed: passed}
	}
	w.row.length++
	threshold := w.target.probe.FailureThreshold
	if passed {
		threshold = w.target.probe.SuccessThreshold
	}
	if w.row.length < threshold {
		return false
	}
	w.manager.set(ctx, w, passed)
	return w.key.probe == startup || w.key.probe == liveness && !passed
}

func (w *worker) attempt(ctx context.Context) (got result, err error) {
	at := w.target
	if at.pod.Spec.HostNetwork {
		at.ip = w.manager.opts.HostIP() // the node's address may have changed since the container's start
	}
	for range attempts {
		if got, err = w.manager.probe(ctx, at); err == nil {
			return got, nil
		}
	}
	return result{}, err
}

package kuberuntime

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/kubelet/model/modeltest"
)

// kill calls KillPod, and returns the calls of the runtime with their times since then, sorted.
func (b *bench) kill(pod *v1.Pod, status *model.PodStatus) []string {
	b.t.Helper()
	b.fake.began = time.Now()
	testutil.Must(b.t, b.KillPod(b.t.Context(), pod, status, KillOptions{MinGrace: 1}))
	slices.Sort(b.fake.noted)
	return b.fake.noted
}

// TestKillPod: app containers end at once, each with its preStop hook, and then the sidecars, the last started first.
// All of it shares one grace period.
func TestKillPod(t *testing.T) {
	for _, test := range []struct {
		name  string
		pod   string
		grace int64
		hooks map[string]string // the command of the preStop hook, by container
		stops map[string]time.Duration
		want  []string
	}{
		{
			"sidecars stop after the apps", "side:s1 side:s2 app:a app:b", 30, map[string]string{"a": "bye"},
			map[string]time.Duration{"a": 2 * time.Second, "b": time.Second, "s2": 4 * time.Second},
			[]string{"0s exec a [bye]", "0s stop b 30", "3s stop a 27", "5s stop s2 25", "9s stop s1 21"},
		},
		{
			"a sidecar's hook runs at once", "side:s app:a", 12, map[string]string{"s": "drain"},
			map[string]time.Duration{"a": 5 * time.Second},
			[]string{"0s exec s [drain]", "0s stop a 12", "5s stop s 7"},
		},
		{
			"an endless hook ends with its container", "app:a", 12, map[string]string{"a": "forever"},
			map[string]time.Duration{"a": 2 * time.Second},
			[]string{"0s exec a [forever]", "12s stop a 2", "14s exec of a ended"},
		},
		{
			"without grace, a hook has a second", "app:a", 0, map[string]string{"a": "forever"},
			map[string]time.Duration{"a": 2 * time.Second},
			[]string{"0s exec a [forever]", "1s stop a 2", "3s exec of a ended"},
		},
		{"no grace, but the minimum", "app:a", 0, nil, nil, []string{"0s stop a 2"}},
		{"less than the minimal grace", "app:a", 1, nil, nil, []string{"0s stop a 2"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				pod := pulled(modeltest.Pod(v1.RestartPolicyAlways, test.pod))
				pod.Spec.TerminationGracePeriodSeconds = &test.grace
				for range len(pod.Spec.InitContainers) + 1 {
					b.sync(pod, Probes{})
				}
				for name, command := range test.hooks {
					c, _ := model.FindContainer(&pod.Spec, name)
					exec := &v1.ExecAction{Command: []string{command}}
					c.Lifecycle = &v1.Lifecycle{PreStop: &v1.LifecycleHandler{Exec: exec}}
				}
				b.fake.stopTime = func(name string) time.Duration { return test.stops[name] }
				got := b.kill(pod, b.status(pod))
				testutil.Assert(t, slices.Equal(got, test.want), "%q, want %q", got, test.want)
				testutil.Assert(t, b.running(pod) == "" && b.status(pod).ReadySandbox() == nil, "something still runs")
			})
		})
	}
}

// TestFailedStopStopsTheSandbox: a pod's sandboxes stop although one of its containers cannot be stopped. They stay
// when the kubelet itself ends.
func TestFailedStopStopsTheSandbox(t *testing.T) {
	for _, ends := range []bool{false, true} {
		b, pod := started(t, "app:a")
		id := b.status(pod).Sandboxes[0].ID
		b.fake.sandboxes, b.fake.unstoppable = nil, errors.New("the shim does not answer")
		ctx, cancel := context.WithCancel(t.Context())
		if ends {
			cancel()
		}
		err := b.KillPod(ctx, pod, b.status(pod), KillOptions{})
		cancel()
		testutil.Assert(t, err != nil && strings.Contains(err.Error(), "stop container a: the shim does not answer"),
			"%v", err)
		var want []string
		if !ends {
			want = []string{"stop " + id}
		}
		testutil.Assert(t, slices.Equal(b.fake.sandboxes, want),
			"the kubelet ends: %v: %q, want %q", ends, b.fake.sandboxes, want)
	}
}

// TestKillOfMissingContainers: a container or sandbox that the runtime no longer has is ended.
func TestKillOfMissingContainers(t *testing.T) {
	b, pod := started(t, "app:a")
	b.fake.unstoppable = status.Error(codes.NotFound, "no such container")
	b.fake.InjectError("StopPodSandbox", status.Error(codes.NotFound, "no such sandbox"))
	testutil.Must(t, b.KillPod(t.Context(), pod, b.status(pod), KillOptions{}))
}

// TestTwoAttemptsEnd: a sidecar waits for all attempts of a container.
func TestTwoAttemptsEnd(t *testing.T) {
	pod := modeltest.Pod(v1.RestartPolicyAlways, "side:s", "app:a")
	attempt := containerKill{Container: model.ContainerStatus{Name: "a"}}
	kills := []containerKill{attempt, attempt, {Container: model.ContainerStatus{Name: "s"}}}
	synctest.Test(t, func(t *testing.T) {
		order := newKillOrder(pod, kills)
		began := time.Now()
		for i := range 2 {
			time.AfterFunc(time.Duration(i+1)*time.Second, func() { order.ended("a") })
		}
		order.wait(t.Context(), "s", began.Add(time.Minute))
		testutil.Equal(t, time.Since(began), 2*time.Second, "the sidecar waited")
	})
}

// TestKillOrphan: a pod that only the runtime knows is killed as the annotations of its containers say.
func TestKillOrphan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, pod := started(t, "app:a")
		status := b.status(pod)
		status.Containers[0].Annotations = map[string]string{
			model.AnnotationPodTerminationGrace: "7", model.AnnotationPreStopHandler: `{"exec":{"command":["bye"]}}`,
		}
		bare := &v1.Pod{}
		bare.UID, bare.Name, bare.Namespace = pod.UID, pod.Name, pod.Namespace
		got, want := b.kill(bare, status), []string{"0s exec a [bye]", "3s stop a 4"}
		testutil.Assert(t, slices.Equal(got, want), "%q, want %q", got, want)
	})
}

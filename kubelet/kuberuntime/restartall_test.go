package kuberuntime

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/kubelet/model/modeltest"
)

// allOn42 is a pod that restarts all containers when container a exits with 42.
func allOn42() *v1.Pod {
	pod := pulled(modeltest.Pod(v1.RestartPolicyNever, "init:i", "app:a", "app:b", "app:c"))
	a := &pod.Spec.Containers[0]
	a.RestartPolicy = new(v1.ContainerRestartPolicyNever)
	a.RestartPolicyRules = []v1.ContainerRestartRule{{
		Action: v1.ContainerRestartRuleActionRestartAllContainers,
		ExitCodes: &v1.ContainerRestartRuleOnExitCodes{Operator: v1.ContainerRestartRuleOnExitCodesOpIn,
			Values: []int32{42}},
	}}
	return pod
}

// up makes the pod's app containers run.
func (b *bench) up(pod *v1.Pod) {
	b.t.Helper()
	b.sync(pod, Probes{})
	b.exit(pod, "i", 0)
	b.sync(pod, Probes{})
	got := b.running(pod)
	testutil.Require(b.t, got == "a b c", "running %q", got)
}

// TestRestartAll: all containers restart in the same sandbox, from the init containers on, with a longer back-off each
// time.
func TestRestartAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		pod := allOn42()
		b.up(pod)
		sandbox := b.status(pod).Sandboxes[0].ID
		for _, pause := range []time.Duration{0, 10 * time.Second, 20 * time.Second} {
			b.exit(pod, "b", 0)
			b.exit(pod, "a", 42)
			if pause > 0 {
				result := b.sync(pod, Probes{})
				if reason := result.Waiting["a"]; reason == nil || reason.Reason != model.ReasonCrashLoopBackOff ||
					result.Again != pause || b.running(pod) != "c" {
					t.Errorf("%+v while %s runs, want a pause of %v", result, b.running(pod), pause)
				}
				time.Sleep(pause)
			}
			b.sync(pod, Probes{})
			got := b.running(pod)
			testutil.Assert(t, got == "i" && len(b.status(pod).Containers) == 1,
				"running %q of %d containers, want the init container alone", got, len(b.status(pod).Containers))
			b.up(pod)
		}
		now := b.status(pod).Sandboxes
		testutil.Assert(t, len(now) == 1 && now[0].ID == sandbox, "sandboxes %v, want %s", now, sandbox)
		b.exit(pod, "a", 1)
		b.sync(pod, Probes{})
		testutil.Equal(t, b.running(pod), "b c", "running after another exit code")
	})
}

// TestRestartAllIsResumed: an interrupted restart is repeated, because the container that triggered it is removed last.
func TestRestartAllIsResumed(t *testing.T) {
	b := newBench(t)
	pod := allOn42()
	b.up(pod)
	b.exit(pod, "a", 42)
	b.fake.InjectError("RemoveContainer", errors.New("not now"))
	_, err := b.SyncPod(t.Context(), pod, b.status(pod), Probes{})
	testutil.Require(t, err != nil && strings.Contains(err.Error(), "not now"), "error %v", err)
	source, _ := model.RestartSource(&pod.Spec, b.status(pod))
	testutil.Require(t, source != nil && b.running(pod) == "", "the interrupted restart has lost its trigger")
	b.Manager = New(b.opts) // another process, without the back-off
	b.up(pod)
}

// TestAttemptAfterLogs: the numbers of attempts that the runtime no longer lists come from the names of their logs.
func TestAttemptAfterLogs(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a")
	got, err := attemptAfterLogs(dir)
	testutil.Assert(t, err == nil && got == 0, "without logs: %d, %v", got, err)
	testutil.Must(t, os.Mkdir(dir, 0o755))
	for _, name := range []string{"8.log", "9.log", "9.log.20060102-150405.gz", "10.log", "10.log.20060102-150405",
		"notes"} {
		testutil.Must(t, os.WriteFile(filepath.Join(dir, name), nil, 0o644))
	}
	got, err = attemptAfterLogs(dir)
	testutil.Assert(t, err == nil && got == 11, "%d, %v", got, err)
	testutil.Must(t, keepLog(filepath.Join(dir, "10.log")))
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	testutil.Assert(t, err == nil && len(left) == 2, "left %v, %v", left, err)
}

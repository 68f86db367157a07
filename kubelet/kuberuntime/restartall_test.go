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

	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/kubelet/model/modeltest"
)

// allOn42 is a pod whose container a has all of them start again by ending with 42.
func allOn42() *v1.Pod {
	pod := pulled(modeltest.Pod(v1.RestartPolicyNever, "init:i", "app:a", "app:b", "app:c"))
	a := &pod.Spec.Containers[0]
	a.RestartPolicy = new(v1.ContainerRestartPolicyNever)
	a.RestartPolicyRules = []v1.ContainerRestartRule{{
		Action:    v1.ContainerRestartRuleActionRestartAllContainers,
		ExitCodes: &v1.ContainerRestartRuleOnExitCodes{Operator: v1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{42}},
	}}
	return pod
}

// up has the pod's app containers run.
func (b *bench) up(pod *v1.Pod) {
	b.t.Helper()
	b.sync(pod, Probes{})
	b.exit(pod, "i", 0)
	b.sync(pod, Probes{})
	if got := b.running(pod); got != "a b c" {
		b.t.Fatalf("running %q", got)
	}
}

// TestRestartAll begins anew with the init containers in the same sandbox, with those that had ended, too, and waits
// longer each time.
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
				if reason := result.Waiting["a"]; reason == nil || reason.Reason != model.ReasonCrashLoopBackOff || result.Again != pause || b.running(pod) != "c" {
					t.Errorf("%+v while %s runs, want a pause of %v", result, b.running(pod), pause)
				}
				time.Sleep(pause)
			}
			b.sync(pod, Probes{})
			if got := b.running(pod); got != "i" || len(b.status(pod).Containers) != 1 {
				t.Errorf("running %q of %d containers, want the init container alone", got, len(b.status(pod).Containers))
			}
			b.up(pod)
		}
		if now := b.status(pod).Sandboxes; len(now) != 1 || now[0].ID != sandbox {
			t.Errorf("sandboxes %v, want %s", now, sandbox)
		}
		b.exit(pod, "a", 1)
		b.sync(pod, Probes{})
		if got := b.running(pod); got != "b c" {
			t.Errorf("after another exit code %q run", got)
		}
	})
}

// TestRestartAllIsResumed where it was interrupted: the container that asked for it is removed last.
func TestRestartAllIsResumed(t *testing.T) {
	b := newBench(t)
	pod := allOn42()
	b.up(pod)
	b.exit(pod, "a", 42)
	b.fake.InjectError("RemoveContainer", errors.New("not now"))
	if _, err := b.SyncPod(t.Context(), pod, b.status(pod), Probes{}); err == nil || !strings.Contains(err.Error(), "not now") {
		t.Fatalf("error %v", err)
	}
	if source, _ := model.RestartSource(&pod.Spec, b.status(pod)); source == nil || b.running(pod) != "" {
		t.Fatal("it is forgotten that all are to start again")
	}
	b.Manager = New(b.opts) // another process, without the back-off
	b.up(pod)
}

// TestAttemptAfterLogs numbers containers that the runtime does not have any more.
func TestAttemptAfterLogs(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a")
	if got, err := attemptAfterLogs(dir); err != nil || got != 0 {
		t.Errorf("without logs: %d, %v", got, err)
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"8.log", "9.log", "9.log.20060102-150405.gz", "10.log", "10.log.20060102-150405", "notes"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := attemptAfterLogs(dir); err != nil || got != 11 {
		t.Errorf("%d, %v", got, err)
	}
	if err := keepLog(filepath.Join(dir, "10.log")); err != nil {
		t.Fatal(err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(left) != 2 {
		t.Errorf("left %v, %v", left, err)
	}
}

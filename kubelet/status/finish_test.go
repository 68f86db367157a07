package status

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/kubelet/model/modeltest"
)

// ends writes the states of all containers: w for waiting, r for running, and the exit codes.
func ends(status v1.PodStatus) string {
	var words []string
	for _, list := range [][]v1.ContainerStatus{status.InitContainerStatuses, status.ContainerStatuses} {
		for _, c := range list {
			switch {
			case c.State.Terminated != nil:
				words = append(words, fmt.Sprint(c.Name, c.State.Terminated.ExitCode))
			case c.State.Running != nil:
				words = append(words, c.Name+"r")
			default:
				words = append(words, c.Name+"w")
			}
		}
	}
	return strings.Join(words, " ")
}

func TestLastStatusOfEndedPods(t *testing.T) {
	tests := []struct {
		name, pod, seen string
		ending          bool
		want            string
	}{
		{"not ending", "app:a app:b", "a=exited:0", false, "a0 bw"},
		{"one runs", "app:a app:b", "a=running", true, "ar bw"},
		{"one unknown", "app:a app:b", "a=unknown", true, "aw bw"},
		{"one never made", "app:a app:b", "a=exited:0", true, "a0 b137"},
		{"none made", "app:a app:b", "", true, "a137 b137"},
		{"no init container made", "init:i init:j app:a", "", true, "i137 jw aw"},
		{"the second init container failed", "init:i init:j init:k app:a", "i=exited:0 j=exited:1", true, "i0 j1 kw aw"},
		{"all init containers over", "init:i app:a", "i=exited:0", true, "i0 a137"},
		{"a sidecar was started, the app was not", "side:s init:i app:a", "s=exited:0 i=exited:1", true, "s0 i1 aw"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			in := inputOf(modeltest.Pod(v1.RestartPolicyAlways, test.pod), seenOf(test.seen))
			in.Ending = test.ending
			if got := ends(Generate(in)); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// TestEndIsRememberedByTheServer keeps the ends of a completed pod whose containers were removed while no kubelet ran.
func TestEndIsRememberedByTheServer(t *testing.T) {
	pod := modeltest.Pod(v1.RestartPolicyNever, "app:a app:b")
	first := Generate(inputOf(pod, seenOf("a=exited:3 b=exited:0")))
	later := inputOf(pod, &model.PodStatus{})
	later.Old = first
	status := Generate(later)
	if got := ends(status); got != "a3 b0" || status.Phase != v1.PodFailed {
		t.Errorf("%s %q", status.Phase, got)
	}
}

func TestRejected(t *testing.T) {
	pod := modeltest.Pod(v1.RestartPolicyAlways, "app:a")
	pod.Generation = 3
	pod.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionTrue}, {Type: "example.org/x"}, {Type: v1.PodReady}}
	status := Rejected(pod, "OutOfcpu", "too much", now.Add(time.Millisecond))
	if status.Phase != v1.PodFailed || status.Reason != "OutOfcpu" || status.Message != "Pod was rejected: too much" || status.ObservedGeneration != 3 ||
		!status.StartTime.Time.Equal(now) || status.QOSClass != v1.PodQOSBestEffort {
		t.Errorf("status %+v", status)
	}
	if len(status.Conditions) != 2 || findCondition(status.Conditions, v1.PodReady) != nil {
		t.Errorf("conditions %+v", status.Conditions)
	}
	began := metav1.NewTime(now.Add(-time.Hour))
	pod.Status.StartTime = &began
	if status := Rejected(pod, "r", "m", now); !status.StartTime.Equal(&began) {
		t.Errorf("start time %v", status.StartTime)
	}
}

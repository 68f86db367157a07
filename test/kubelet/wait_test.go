package kubelet

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/internal/testutil"
)

// patience bounds each wait of a test.
const patience = testutil.Patience

// eventually repeats check until it returns nil.
func eventually(t testing.TB, what string, check func() error) {
	t.Helper()
	testutil.EventuallyWithin(t, patience, what, check)
}

// wantText returns an error unless text contains part.
func wantText(text, part string) error {
	if !strings.Contains(text, part) {
		return fmt.Errorf("it lacks %q:\n%s", part, text)
	}
	return nil
}

// fileHas waits until a file has a text.
func fileHas(t testing.TB, path, want string) {
	t.Helper()
	eventually(t, filepath.Base(path), func() error {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return wantText(string(text), want)
	})
}

// stays repeats check for the time during, and fails the test at the first error.
func stays(t testing.TB, what string, during time.Duration, check func() error) {
	t.Helper()
	for deadline := time.Now().Add(during); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		err := check()
		testutil.Require(t, err == nil, "%s: %v", what, err)
	}
}

// until waits until the pod is as check wants it, and returns it.
func (n *node) until(name string, check func(*v1.Pod) error) *v1.Pod {
	n.t.Helper()
	var found *v1.Pod
	eventually(n.t, "pod "+name, func() error {
		pod, err := n.find(name)
		if err != nil {
			return err
		}
		found = pod
		return check(pod)
	})
	return found
}

// ready waits until the pod is ready.
func (n *node) ready(name string) *v1.Pod {
	n.t.Helper()
	return n.until(name, func(pod *v1.Pod) error { return wantReady(pod, v1.ConditionTrue) })
}

func wantReady(pod *v1.Pod, want v1.ConditionStatus) error {
	if ready := conditionOf(pod, v1.PodReady); ready != nil && ready.Status == want {
		return nil
	}
	return fmt.Errorf("not Ready=%s: %s %s", want, pod.Status.Phase, states(pod))
}

func wantPhase(phase v1.PodPhase) func(*v1.Pod) error {
	return func(pod *v1.Pod) error {
		if pod.Status.Phase != phase {
			return fmt.Errorf("phase %s, want %s: %s", pod.Status.Phase, phase, states(pod))
		}
		return nil
	}
}

// wantWaiting wants a container to wait for one of the reasons, with a message that contains text.
func wantWaiting(container, text string, reasons ...string) func(*v1.Pod) error {
	return func(pod *v1.Pod) error {
		waiting := status(pod, container).State.Waiting
		if waiting == nil || !slices.Contains(reasons, waiting.Reason) || !strings.Contains(waiting.Message, text) {
			return fmt.Errorf("%s does not wait for %v with %q: %s", container, reasons, text, states(pod))
		}
		return nil
	}
}

// states returns the statuses of a pod's containers, for messages.
func states(pod *v1.Pod) string {
	text, err := json.Marshal(slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// status is the status of one container; the zero value if there is none.
func status(pod *v1.Pod, container string) v1.ContainerStatus {
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if status.Name == container {
			return status
		}
	}
	return v1.ContainerStatus{}
}

// restarted waits until a container has been restarted at least that many times.
func (n *node) restarted(pod, container string, times int32) *v1.Pod {
	n.t.Helper()
	return n.until(pod, func(pod *v1.Pod) error {
		if got := status(pod, container).RestartCount; got < times {
			return fmt.Errorf("%s was restarted %d times, want %d", container, got, times)
		}
		return nil
	})
}

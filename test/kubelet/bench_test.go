package kubelet

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/kubelet/model"
)

// manyPods is how many pods come from a folder at once.
const manyPods = 40

// BenchmarkManyPods measures the time from the manifests of 40 pods until all are Ready, with the image present.
func BenchmarkManyPods(b *testing.B) {
	n := newNode(b)
	n.write("first.yaml", simple("first", "sleep 1000"))
	n.ready("first") // pulls the image
	for b.Loop() {
		b.StopTimer()
		var text strings.Builder
		for i := range manyPods {
			text.WriteString(simple(fmt.Sprintf("many-%d", i), "exec sleep 1000") + "---\n")
		}
		b.StartTimer()
		n.write("many.yaml", text.String())
		n.countReady(manyPods + 1)
		b.StopTimer()
		n.remove("many.yaml")
		n.countReady(1)
		b.StartTimer()
	}
	b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "s/40-pods")
}

// countReady waits until that many pods are known, and all are ready.
func (n *node) countReady(want int) {
	n.t.Helper()
	eventually(n.t, fmt.Sprintf("%d pods", want), func() error {
		pods, err := n.pods()
		if err != nil {
			return err
		}
		if len(pods) != want {
			return fmt.Errorf("%d pods, want %d", len(pods), want)
		}
		for i := range pods {
			if err := wantReady(&pods[i], v1.ConditionTrue); err != nil {
				return err
			}
		}
		return nil
	})
}

// BenchmarkRestart measures the time from a container's death, by the runtime's clock, to the start of its next attempt:
// with the runtime's events, and by listing each second.
func BenchmarkRestart(b *testing.B) {
	for name, flags := range map[string][]string{"evented": nil, "polled": {"--no-runtime-events"}} {
		b.Run(name, func(b *testing.B) {
			n := newNode(b, append(flags, "--crash-backoff", "1ms", "--crash-backoff-max", "1ms")...)
			n.write("pod.yaml", simple("pod", "exec sleep 1000"))
			pod := n.ready("pod")
			var took time.Duration
			rounds := int32(0)
			for b.Loop() {
				rounds++
				dead := id(pod, "main")
				n.docker("kill", dead)
				n.restarted("pod", "main", rounds)
				pod = n.ready("pod")
				took += n.gap(pod, dead)
			}
			b.ReportMetric(float64(took.Milliseconds())/float64(b.N), "ms/restart")
		})
	}
}

// gap is the time between the end of one attempt and the start of the next.
func (n *node) gap(pod *v1.Pod, dead string) time.Duration {
	n.t.Helper()
	ended, err := n.server.Runtime.ContainerStatus(n.t.Context(), dead, false)
	if err != nil {
		n.t.Fatal(err)
	}
	started, err := n.server.Runtime.ContainerStatus(n.t.Context(), id(pod, "main"), false)
	if err != nil {
		n.t.Fatal(err)
	}
	if owner := started.GetStatus().GetLabels()[model.LabelOwner]; owner != n.name {
		n.t.Fatalf("the container is of %q", owner)
	}
	return time.Duration(started.GetStatus().GetStartedAt() - ended.GetStatus().GetFinishedAt())
}

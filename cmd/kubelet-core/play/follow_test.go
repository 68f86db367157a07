package play

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/model"
)

// TestFollowReadsEachAttempt checks that the logs of a container that restarted between two looks are all shown, once.
func TestFollowReadsEachAttempt(t *testing.T) {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: "1"}}
	pod.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "main", ContainerID: "criadapter://2", RestartCount: 2}}
	var out strings.Builder
	f := &follower{terminal: newTerminal(&out, false, nil), logs: t.TempDir(), next: map[containerKey]int32{},
		pods: func() []*v1.Pod { return []*v1.Pod{pod} }}
	for i := range uint32(3) {
		testutil.WriteFile(t, filepath.Join(model.PodLogDirectory(f.logs, pod), model.ContainerLogPath("main", i)),
			fmt.Sprintf("2026-11-29T12:00:00.000000000Z stdout F attempt %d\n", i))
	}
	f.follow(t.Context(), []*v1.Pod{pod})
	f.running.Wait()
	f.follow(t.Context(), []*v1.Pod{pod})
	f.running.Wait()
	var lines []string
	for line := range strings.Lines(out.String()) {
		lines = append(lines, line[strings.Index(line, "attempt"):])
	}
	testutil.Equal(t, strings.Join(lines, ""), "attempt 0\nattempt 1\nattempt 2\n", "output")
}

package play

import (
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestWorthTelling(t *testing.T) {
	for e, want := range map[*v1.Event]bool{
		{Type: v1.EventTypeWarning, Reason: "BackOff"}:           true,
		{Type: v1.EventTypeNormal, Reason: "Pulling"}:            true,
		{Type: v1.EventTypeNormal, Reason: "Started"}:            false,
		{Type: v1.EventTypeWarning, Reason: "MissingClusterDNS"}: false,

		{Type: v1.EventTypeWarning, Reason: "Failed", Message: "Error: ErrImagePull"}:  false,
		{Type: v1.EventTypeWarning, Reason: "Failed", Message: "Error: no such image"}: true,
	} {
		testutil.Equal(t, worthTelling(e), want, "%s %s %s", e.Type, e.Reason, e.Message)
	}
}

// TestWaiting checks that pods that are not ready are shown below the other lines, and removed when they are ready.
func TestWaiting(t *testing.T) {
	var out strings.Builder
	news := newProgress(newTerminal(&out, false, func() int { return 20 }))
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-n", UID: "1"}, Spec: v1.PodSpec{NodeName: "n"}}
	begin := time.Now()
	show := func(after time.Duration) {
		news.terminal.show(news.waiting([]*v1.Pod{pod}, begin.Add(after)))
	}
	const erase = "\x1b[1A\x1b[J"
	show(0)
	news.say(t.Context(), "web", "Pulling image nginx")
	show(2 * time.Second)
	show(2 * time.Second) // nothing has changed
	pod.Status.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}}
	show(3 * time.Second)
	news.say(t.Context(), "web", "Ready")
	const want = "… web  0s  \n" + erase + "web | Pulling image nginx\n" + "… web  0s  \n" +
		erase + "… web  2s  Pulling \n" + erase + "web | Ready\n"
	testutil.Equal(t, out.String(), want, "output")
}

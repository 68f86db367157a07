package nodeshutdown

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/criadapter/criadapter/internal/testutil"
)

// pod has a name, a priority and a grace period. A negative grace period is none.
func pod(name string, priority int32, grace int64) *v1.Pod {
	p := &v1.Pod{}
	p.Name, p.UID, p.Spec.Priority = name, types.UID(name), &priority
	if grace >= 0 {
		p.Spec.TerminationGracePeriodSeconds = &grace
	}
	return p
}

// periodsOf returns the periods of valid settings.
func periodsOf(t *testing.T, settings Settings) []Period {
	t.Helper()
	periods, err := settings.Periods()
	testutil.Must(t, err)
	return periods
}

// grouped returns the groups of pods as text, with the grace period of each pod.
func grouped(pods []*v1.Pod, periods []Period) string {
	var got []string
	for _, each := range groups(pods, periods) {
		text := each.period.String() + ":"
		for _, p := range each.pods {
			text += fmt.Sprintf(" %s=%d", p.Name, each.graceOf(p))
		}
		got = append(got, text)
	}
	return strings.Join(got, "; ")
}

// TestPeriodsByPriority has three periods: a pod is in the highest one that is not above its priority.
func TestPeriodsByPriority(t *testing.T) {
	periods := periodsOf(t, Settings{ByPriority: map[string]string{"100000": "10s", "0": "20s", "10000": "15s"}})
	got := grouped([]*v1.Pod{pod("low", -5, -1), pod("none", 0, 3), pod("middle", 10000, 60),
		pod("high", 99999, -1), pod("top", 2_000_000_000, -1)}, periods)
	testutil.Equal(t, got, "20s: low=20 none=3; 15s: middle=15 high=15; 10s: top=10", "groups")
	testutil.Equal(t, New(periods).grace, 45*time.Second, "delay of a shutdown")
	for want, settings := range map[string]Settings{
		"exclude each other":       {Grace: time.Second, ByPriority: map[string]string{"0": "1s"}},
		`"high" is not a priority`: {ByPriority: map[string]string{"high": "1s"}},
		"not at least a second":    {ByPriority: map[string]string{"0": "1ms"}},
	} {
		_, err := settings.Periods()
		testutil.Assert(t, err != nil && strings.Contains(err.Error(), want), "%+v: %v, want %q", settings, err, want)
	}
}

func TestGroups(t *testing.T) {
	const critical = 2_000_000_000
	for _, test := range []struct {
		name            string
		pods            []*v1.Pod
		grace, ofGroups time.Duration
		want            string
	}{
		{"no pods", nil, 30 * time.Second, 10 * time.Second, ""},
		{"both",
			[]*v1.Pod{pod("a", critical, 60), pod("b", 0, 60), pod("c", critical+1000, 5), pod("d", critical-1, 5)},
			30 * time.Second, 10 * time.Second,
			"20s: b=20 d=5; 10s: a=10 c=5"},
		{"no critical ones", []*v1.Pod{pod("b", 0, 60)}, 30 * time.Second, 10 * time.Second, "20s: b=20"},
		{"critical ones alone", []*v1.Pod{pod("a", critical, -1)}, 30 * time.Second, 10 * time.Second, "10s: a=10"},
		{"nothing for critical ones", []*v1.Pod{pod("a", critical, 60), pod("b", 0, 0)}, 30 * time.Second, 0,
			"30s: b=0; 0s: a=0"},
	} {
		got := grouped(test.pods, periodsOf(t, Settings{Grace: test.grace, Critical: test.ofGroups}))
		testutil.Equal(t, got, test.want, "%s", test.name)
	}
}

func TestPeriods(t *testing.T) {
	for _, test := range []struct {
		grace, critical time.Duration
		want            string
	}{
		{0, 0, ""}, {30 * time.Second, 10 * time.Second, ""}, {30 * time.Second, 30 * time.Second, ""},
		{10 * time.Second, 20 * time.Second, "is longer than the grace period of all pods"},
		{0, time.Second, "is longer than the grace period of all pods"},
		{time.Millisecond, 0, "shutdown grace period 1ms is neither"},
		{time.Minute, time.Millisecond, "critical pods 1ms is neither"}, {-time.Second, 0, "neither 0"},
	} {
		_, err := Settings{Grace: test.grace, Critical: test.critical}.Periods()
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v and %v: %v, want %q", test.grace, test.critical, err, test.want)
		}
	}
}

package nodeshutdown

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/kubelet/model"
)

// Period is a part of a shutdown, for the pods of a priority and above.
type Period struct {
	Priority int32
	Grace    time.Duration
}

// Settings are grace periods as the kubelet's configuration has them: either Grace and Critical, or ByPriority.
type Settings struct {
	// Grace is the time for all pods, and Critical the part of it for critical pods, which end last.
	Grace, Critical time.Duration
	// ByPriority are the times by pod priority, as text.
	ByPriority map[string]string
}

// Periods returns the parts of a shutdown in the order of their priorities. It returns none if the kubelet does not
// delay shutdowns.
func (s Settings) Periods() ([]Period, error) {
	if len(s.ByPriority) > 0 {
		return s.byPriority()
	}
	for _, each := range []struct {
		name   string
		period time.Duration
	}{{"shutdown grace period", s.Grace}, {"shutdown grace period of critical pods", s.Critical}} {
		if each.period < 0 || each.period > 0 && each.period < time.Second {
			return nil, fmt.Errorf("the %s %v is neither 0 nor at least a second", each.name, each.period)
		}
	}
	if s.Critical > s.Grace {
		return nil, fmt.Errorf("the shutdown grace period of critical pods, %v, "+
			"is longer than the grace period of all pods, %v", s.Critical, s.Grace)
	}
	if s.Grace == 0 {
		return nil, nil
	}
	return []Period{{0, s.Grace - s.Critical}, {model.SystemCriticalPriority, s.Critical}}, nil
}

func (s Settings) byPriority() ([]Period, error) {
	if s.Grace != 0 || s.Critical != 0 {
		return nil, errors.New("a shutdown grace period and grace periods by pod priority exclude each other")
	}
	var periods []Period
	for text, grace := range s.ByPriority {
		priority, err := strconv.ParseInt(text, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("shutdown grace periods by pod priority: %q is not a priority", text)
		}
		period, err := time.ParseDuration(grace)
		if err != nil || period < time.Second {
			return nil, fmt.Errorf("the shutdown grace period %q of priority %d is not at least a second", grace,
				priority)
		}
		periods = append(periods, Period{int32(priority), period})
	}
	slices.SortFunc(periods, func(a, b Period) int { return cmp.Compare(a.Priority, b.Priority) })
	return periods, nil
}

// group are pods that end together.
type group struct {
	pods []*v1.Pod
	// period bounds the wait for their end.
	period time.Duration
}

// groups returns the groups in the order in which they end. A pod is in the group of the highest priority that is not
// above its own, or in the first group. Empty groups are left out, so they take no time.
func groups(pods []*v1.Pod, periods []Period) []group {
	all := make([]group, len(periods))
	for i, p := range periods {
		all[i].period = p.Grace
	}
	for _, pod := range pods {
		priority := model.Priority(pod)
		i := 0
		for i+1 < len(periods) && periods[i+1].Priority <= priority {
			i++
		}
		all[i].pods = append(all[i].pods, pod)
	}
	return slices.DeleteFunc(all, func(g group) bool { return len(g.pods) == 0 })
}

// graceOf is a pod's grace period in seconds: its own, or the group's period if that is shorter.
func (g group) graceOf(pod *v1.Pod) int64 {
	seconds := int64(g.period / time.Second)
	if own := pod.Spec.TerminationGracePeriodSeconds; own != nil && *own < seconds {
		return *own
	}
	return seconds
}

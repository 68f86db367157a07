package main

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/internal/testutil"
)

// TestUnready: a pod is ready only if its condition says so.
func TestUnready(t *testing.T) {
	pod := func(conditions ...v1.PodCondition) []*v1.Pod {
		return []*v1.Pod{{Status: v1.PodStatus{Conditions: conditions}}}
	}
	yes := v1.PodCondition{Type: v1.PodReady, Status: v1.ConditionTrue}
	no := v1.PodCondition{Type: v1.PodReady, Status: v1.ConditionFalse}
	other := v1.PodCondition{Type: v1.PodInitialized, Status: v1.ConditionTrue}
	testutil.Assert(t, unready(pod(other, yes)) == nil, "a ready pod: %v", unready(pod(other, yes)))
	for name, pods := range map[string][]*v1.Pod{"none": nil, "not ready": pod(no), "no condition": pod(other)} {
		testutil.Assert(t, unready(pods) != nil, "%s: no error", name)
	}
}

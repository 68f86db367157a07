package main

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func stamped(name string, created, ready time.Time) *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(created)}}
	if !ready.IsZero() {
		pod.Status.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue, LastTransitionTime: metav1.NewTime(ready)}}
	}
	return pod
}

// Times up are by the pods' own stamps, times gone by the clock; what is forgotten counts in neither.
func TestCrowdTimes(t *testing.T) {
	c := &crowd{seen: make(map[string]*seen), names: []string{"a", "b"}, changed: make(chan struct{}, 1)}
	zero := time.Unix(1000, 0)
	c.see(stamped("a", zero, time.Time{}), false, zero)
	if c.allReady() == nil {
		t.Error("a pod that was never seen is ready")
	}
	c.see(stamped("a", zero, zero.Add(3*time.Second)), false, zero)
	c.see(stamped("b", zero.Add(time.Second), zero.Add(2*time.Second)), false, zero)
	if err := c.allReady(); err != nil {
		t.Error(err)
	}
	if got, want := c.upTimes(), (times{N: 2, P50: 1, P99: 3, All: 3}); got != want {
		t.Errorf("up %+v, want %+v", got, want)
	}
	c.seen["a"].deleted = zero
	c.see(stamped("a", zero, time.Time{}), true, zero.Add(4*time.Second))
	if got, want := c.goneTimes(), (times{N: 1, P50: 4, P99: 4, All: 4}); got != want {
		t.Errorf("gone %+v, want %+v", got, want)
	}
	if err := c.onlyLeft(1); err != nil {
		t.Error(err)
	}
	c.forget()
	if got := c.upTimes(); got.N != 0 {
		t.Errorf("forgotten pods count: %+v", got)
	}
	if got := c.present(); len(got) != 1 || got[0] != "b" {
		t.Errorf("present are %v", got)
	}
	if got := c.goneTimes(); got.N != 0 {
		t.Errorf("pods that went before count: %+v", got)
	}
}

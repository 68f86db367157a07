package main

import (
	"regexp"
	"testing"
)

// Every set has a name of its own and patterns that Ginkgo understands; the fast one is a part of the whole.
func TestSets(t *testing.T) {
	seen := make(map[string]bool)
	for _, s := range sets() {
		if s.name == "" || s.what == "" || s.focus == "" || seen[s.name] {
			t.Errorf("set %+v", s)
		}
		seen[s.name] = true
		for _, pattern := range []string{s.focus, s.skip} {
			if _, err := regexp.Compile(pattern); err != nil {
				t.Errorf("%s: %v", s.name, err)
			}
		}
		if got, err := setNamed(s.name); err != nil || got != s {
			t.Errorf("%s: %+v, %v", s.name, got, err)
		}
	}
	if _, err := setNamed("none such"); err == nil {
		t.Error("any name is a set's")
	}
}

// What runs is that of no other set: a spec of Windows, a flaky one or one that must run alone is in no parallel set.
func TestWhatNoSetRuns(t *testing.T) {
	for _, name := range []string{
		"[sig-windows] Pods should start [NodeConformance]", "[sig-node] Pods should start [Flaky] [NodeConformance]",
		"[sig-node] Pods should start [Serial] [NodeConformance] [Conformance]",
	} {
		for _, s := range sets() {
			if s.alone {
				continue
			}
			if s.has(name) {
				t.Errorf("the set %s has %q", s.name, name)
			}
		}
	}
}

package config

import (
	"reflect"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestMetricGroups(t *testing.T) {
	for value, want := range map[string][]string{
		"all":        nil,
		"none":       {},
		"cpu":        {"cpu"},
		"cpu,memory": {"cpu", "memory"},
	} {
		c, err := load(t, "--cri-metrics", value)
		testutil.Must(t, err)
		got := c.MetricGroups()
		testutil.Assert(t, reflect.DeepEqual(got, want), "%s: %#v, want %#v", value, got, want)
	}
	if c, err := load(t); err != nil || c.MetricGroups() != nil {
		t.Errorf("by default: %#v, %v", c.MetricGroups(), err)
	}
}

package chaos

import (
	"testing"

	"github.com/criadapter/criadapter/test/rig/footprint"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

func newMetrics(t *testing.T, env rigenv.Env) *footprint.Metrics {
	t.Helper()
	metrics, err := footprint.NewMetrics(env.WorkDir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := metrics.Close(); err != nil {
			t.Error(err)
		}
	})
	return metrics
}

// valueOf returns the value of a metric without labels.
func valueOf(t *testing.T, metrics *footprint.Metrics, name string) float64 {
	t.Helper()
	value, err := metrics.Value(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

package chaos

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/footprint"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

func newMetrics(t *testing.T, env rigenv.Env) *footprint.Metrics {
	t.Helper()
	dir, err := os.MkdirTemp(env.WorkDir, "m") // short, because the length of a socket's path is limited
	testutil.Must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return footprint.NewMetrics(filepath.Join(dir, "m.sock"))
}

// valueOf returns the value of a metric without labels.
func valueOf(t *testing.T, metrics *footprint.Metrics, name string) float64 {
	t.Helper()
	value, err := metrics.Value(t.Context(), name)
	testutil.Must(t, err)
	return value
}

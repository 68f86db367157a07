package e2e

import (
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/adapter"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// TestMetricsAreNarrowed: the server leaves out metrics that the configuration does not name.
func TestMetricsAreNarrowed(t *testing.T) {
	onlyMetrics(t, "cpu,network", "container_cpu_", "container_network_")
}

// TestMetricsAreTurnedOff: with the choice none, the lists of descriptors and metrics are empty, and no call fails.
func TestMetricsAreTurnedOff(t *testing.T) { onlyMetrics(t, "none") }

// onlyMetrics runs a server with a choice of metrics. All descriptors and metrics must begin with one of the prefixes,
// and each prefix must have some.
func onlyMetrics(t *testing.T, choice string, prefixes ...string) {
	t.Helper()
	w := newWorkerWith(t, adapter.Options{Env: rigenv.Require(t), Flags: []string{"--cri-metrics=" + choice}})
	seen := map[string]bool{}
	note := func(metric string) {
		for _, prefix := range prefixes {
			if strings.HasPrefix(metric, prefix) {
				seen[prefix] = true
				return
			}
		}
		t.Errorf("%s is there with --cri-metrics=%s", metric, choice)
	}
	descriptors, err := w.server.Runtime.ListMetricDescriptors(t.Context())
	testutil.Must(t, err)
	for _, descriptor := range descriptors {
		note(descriptor.Name)
	}
	same(t, "groups with a descriptor", len(seen), len(prefixes))
	clear(seen)
	pods, err := w.server.Runtime.ListPodSandboxMetrics(t.Context())
	testutil.Must(t, err)
	for _, pod := range pods {
		for _, metric := range pod.Metrics {
			note(metric.Name)
		}
		for _, container := range pod.ContainerMetrics {
			for _, metric := range container.Metrics {
				note(metric.Name)
			}
		}
	}
	same(t, "groups with a metric", len(seen), len(prefixes))
}

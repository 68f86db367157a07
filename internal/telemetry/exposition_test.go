package telemetry

import (
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestExpositionIsClean(t *testing.T) {
	status, body := serve(t, ServerOptions{Metrics: used()}).get("/metrics")
	testutil.Require(t, status == http.StatusOK, "status %d: %s", status, body)
	families := parse(t, strings.NewReader(body))
	problems, err := promlint.New(strings.NewReader(body)).Lint()
	testutil.Must(t, err)
	for _, problem := range problems {
		t.Errorf("%s: %s", problem.Metric, problem.Text)
	}
	for _, test := range []struct {
		family string
		labels []string
		want   float64
	}{
		{"criadapter_rpc_requests_total", []string{"method", "RunPodSandbox", "code", "OK"}, 1},
		{"criadapter_rpc_requests_total", []string{"method", "RunPodSandbox", "code", "Unavailable"}, 1},
		{"criadapter_rpc_duration_seconds", []string{"method", "RunPodSandbox"}, 2},
		{"criadapter_engine_calls_total", []string{"call", "create container", "outcome", "ok"}, 1},
		{"criadapter_engine_call_duration_seconds", []string{"call", "create container"}, 1},
		{"criadapter_cni_operations_total", []string{"operation", "ADD", "outcome", "error"}, 1},
		{"criadapter_cni_operation_duration_seconds", []string{"operation", "ADD"}, 1},
		{"criadapter_image_pulls_total", []string{"outcome", "ok"}, 1},
		{"criadapter_image_pull_duration_seconds", nil, 1},
		{"criadapter_event_lag_seconds", nil, 1},
		{"criadapter_log_written_bytes_total", nil, 4096},
		{"criadapter_log_lag_seconds", nil, 1},
		{"criadapter_log_gaps_total", nil, 1},
		{"criadapter_log_missing_bytes_total", nil, 2},
		{"criadapter_log_missing_entries_total", nil, 3},
		{"criadapter_log_damaged_bytes_total", nil, 4},
		{"criadapter_log_unwatched", nil, 5},
		{"criadapter_cache_fresh", nil, 1},
		{"criadapter_oci_runtime_works", nil, 1},
		{"criadapter_pods", []string{"state", "ready"}, 2},
		{"criadapter_containers", []string{"state", "running"}, 3},
		{"criadapter_streaming_sessions", []string{"kind", "exec"}, 5},
		{"criadapter_build_info", []string{"version", "v1.2.3"}, 1},
	} {
		got, ok := value(families[test.family], test.labels...)
		testutil.Assert(t, ok && got == test.want,
			"%s%v is %v (there: %t), want %v", test.family, test.labels, got, ok, test.want)
	}
	age, _ := value(families["criadapter_cache_age_seconds"])
	testutil.Assert(t, age >= 60 && age <= 120, "the cache is %v seconds old, want 60", age)
	for _, name := range []string{"go_goroutines", "process_resident_memory_bytes"} {
		if got, _ := value(families[name]); got <= 0 {
			t.Errorf("%s is %v", name, got)
		}
	}
}

// TestSeveralMetrics shows that nothing is registered globally.
func TestSeveralMetrics(t *testing.T) {
	first, second := used(), used()
	first.LogBatch(1, 0)
	for m, want := range map[*Metrics]float64{first: 4097, second: 4096} {
		_, body := serve(t, ServerOptions{Metrics: m}).get("/metrics")
		got, _ := value(parse(t, strings.NewReader(body))["criadapter_log_written_bytes_total"])
		testutil.Assert(t, got == want, "%v bytes, want %v", got, want)
	}
}

// TestCacheWithoutAge checks the metrics of a program that has not reached the engine yet.
func TestCacheWithoutAge(t *testing.T) {
	m := NewMetrics(MetricsOptions{})
	m.Watch(emptySources())
	_, body := serve(t, ServerOptions{Metrics: m}).get("/metrics")
	families := parse(t, strings.NewReader(body))
	got, ok := value(families["criadapter_cache_fresh"])
	testutil.Assert(t, ok && got == 0, "fresh is %v (there: %t), want 0", got, ok)
	if _, ok := families["criadapter_cache_age_seconds"]; ok {
		t.Error("a cache that was never filled has an age")
	}
	if _, ok := families["criadapter_oci_runtime_works"]; ok {
		t.Error("a runtime that the engine does not have is reported as working or not")
	}
}

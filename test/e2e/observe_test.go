package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/grpctest"
	"github.com/criadapter/criadapter/test/rig/adapter"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// endpoint is a server's address for metrics and health.
type endpoint struct {
	t      *testing.T
	socket string
	client *http.Client
}

func newEndpoint(t *testing.T) *endpoint {
	t.Helper()
	dir, err := os.MkdirTemp(rigenv.Require(t).WorkDir, "metrics")
	testutil.Must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	e := &endpoint{t: t, socket: filepath.Join(dir, "metrics.sock")}
	e.client = &http.Client{
		Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", e.socket)
		}}}
	t.Cleanup(e.client.CloseIdleConnections)
	return e
}

func (e *endpoint) flag() string { return "--metrics-bind-addr=unix://" + e.socket }

// get returns the answer's status and body.
func (e *endpoint) get(path string) (int, string, error) {
	response, err := e.client.Get("http://criadapter" + path)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, string(body), err
}

// wantReady waits until /readyz answers with the status want. Then /healthz must be OK.
func (e *endpoint) wantReady(want int) {
	e.t.Helper()
	testutil.Eventually(e.t, func() error {
		if status, body, err := e.get("/readyz"); status != want || err != nil {
			return fmt.Errorf("/readyz: %d %q %w, want %d", status, body, err, want)
		}
		return nil
	})
	status, body, err := e.get("/healthz")
	testutil.Assert(e.t, status == http.StatusOK && err == nil, "/healthz: %d %q %v", status, body, err)
}

// scrape returns every series as name{label="value",...}, with the labels in the order of the exposition. The value of
// a histogram is its count.
func (e *endpoint) scrape() map[string]float64 {
	e.t.Helper()
	status, body, err := e.get("/metrics")
	testutil.Require(e.t, err == nil && status == http.StatusOK, "/metrics: %d %v", status, err)
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(body))
	testutil.Must(e.t, err)
	series := map[string]float64{}
	for name, family := range families {
		for _, m := range family.GetMetric() {
			series[name+labels(m)] = m.GetCounter().GetValue() + m.GetGauge().GetValue() +
				float64(m.GetHistogram().GetSampleCount())
		}
	}
	return series
}

func labels(m *dto.Metric) string {
	var pairs []string
	for _, label := range m.GetLabel() {
		pairs = append(pairs, fmt.Sprintf("%s=%q", label.GetName(), label.GetValue()))
	}
	if pairs == nil {
		return ""
	}
	return "{" + strings.Join(pairs, ",") + "}"
}

// spansUnder counts the spans in the trace of the only request of this method, by the last part of their names.
func spansUnder(method string, c *grpctest.Collector) map[string]int {
	spans := c.Spans()
	var trace string
	for _, span := range spans {
		if path.Base(span.GetName()) == method {
			trace = string(span.GetTraceId())
		}
	}
	count := map[string]int{}
	for _, span := range spans {
		if string(span.GetTraceId()) == trace {
			count[path.Base(span.GetName())]++
		}
	}
	return count
}

// TestOperatorsSeeWhatHappens runs a pod and looks for it in the metrics, the health answers, the traces and the log.
func TestOperatorsSeeWhatHappens(t *testing.T) {
	e, traces := newEndpoint(t), grpctest.Collect(t)
	c := newCrictl(t, e.flag(), "--log-format=json", "--log-level=info",
		"--tracing-endpoint="+traces.Endpoint, "--tracing-sampling-rate-per-million=1000000")
	testutil.Eventually(t, func() error {
		for _, path := range []string{"/healthz", "/readyz"} {
			if status, body, err := e.get(path); status != http.StatusOK || err != nil {
				return fmt.Errorf("%s: %d %s %w", path, status, body, err)
			}
		}
		return nil
	})
	status, _, err := e.get("/debug/pprof/")
	testutil.Assert(t, status == http.StatusNotFound && err == nil, "profiles are served without the flag: %d %v",
		status, err)
	before := e.scrape()
	// The proxy in front of the rig's server would add a kubelet's namespace options. Without the proxy, the pod gets a
	// sandbox container, whose calls are checked below.
	c.use(c.server.Endpoint)
	p := c.runPod()
	id := c.container(p, "main", "test/busybox:latest", "sh", "-c", "echo a line of output; sleep 1000")
	r := c.try("inspect", "no-such-container")
	testutil.Assert(t, r.code != 0, "an unknown container was found")
	c.checkSessions(e, id)
	testutil.Eventually(t, func() error { return moved(before, e.scrape()) })

	testutil.Must(t, c.server.Stop(t.Context()))
	spans := spansUnder("RunPodSandbox", traces)
	for _, name := range []string{"docker create container", "docker start container", "CNI ADD"} {
		testutil.Assert(t, spans[name] == 1,
			"%q is %d times in the trace of RunPodSandbox, want once: %v", name, spans[name], spans)
	}
	c.checkLog(p)
	if err := c.server.Start(t.Context()); err != nil { // for the pod's removal
		t.Fatal(err)
	}
}

// moved returns an error that names a series with a wrong increase between two scrapes. Other tests may use the engine
// at the same time, but not this server.
func moved(before, after map[string]float64) error {
	for series, want := range map[string]float64{
		`criadapter_rpc_requests_total{code="OK",method="RunPodSandbox"}`:         1,
		`criadapter_rpc_requests_total{code="OK",method="CreateContainer"}`:       1,
		`criadapter_rpc_requests_total{code="NotFound",method="ContainerStatus"}`: 1,
		`criadapter_rpc_duration_seconds{method="RunPodSandbox"}`:                 1,
		`criadapter_engine_calls_total{call="create container",outcome="ok"}`:     2,
		`criadapter_engine_call_duration_seconds{call="create container"}`:        2,
		`criadapter_cni_operations_total{operation="ADD",outcome="ok"}`:           1,
		`criadapter_image_pulls_total{outcome="ok"}`:                              1,
		`criadapter_image_pull_duration_seconds`:                                  1,
	} {
		if got := after[series] - before[series]; got != want {
			return fmt.Errorf("%s went up by %v, want %v", series, got, want)
		}
	}
	for _, series := range []string{"criadapter_event_lag_seconds", "criadapter_log_lag_seconds",
		"criadapter_log_written_bytes_total"} {
		if after[series] <= before[series] {
			return fmt.Errorf("%s stays at %v", series, after[series])
		}
	}
	for _, series := range []string{
		`criadapter_cache_fresh`, `criadapter_pods{state="ready"}`, `criadapter_containers{state="running"}`,
		`go_goroutines`, `process_open_fds`,
	} {
		if after[series] < 1 {
			return fmt.Errorf("%s is %v", series, after[series])
		}
	}
	return nil
}

// checkSessions checks the number of sessions while a session is open, and afterwards.
func (c *crictl) checkSessions(e *endpoint, id string) {
	c.t.Helper()
	const series = `criadapter_streaming_sessions{kind="exec"}`
	open := func(want float64) func() error {
		return func() error {
			if got := e.scrape()[series]; got != want {
				return fmt.Errorf("%v sessions are open, want %v", got, want)
			}
			return nil
		}
	}
	session := c.command("exec", "-i", id, "cat")
	input, err := session.StdinPipe()
	testutil.Must(c.t, err)
	testutil.Must(c.t, session.Start())
	testutil.Eventually(c.t, open(1))
	testutil.Check(c.t, input.Close())
	testutil.Check(c.t, session.Wait())
	testutil.Eventually(c.t, open(0))
}

// checkLog reads the whole log as JSON and looks for the pod's lines.
func (c *crictl) checkLog(p pod) {
	c.t.Helper()
	raw := testutil.ReadFile(c.t, c.server.LogPath)
	seen := map[string]int{}
	for line := range strings.Lines(raw) {
		var fields map[string]any
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			c.t.Errorf("%q is no JSON: %v", line, err)
			continue
		}
		rpc, _ := fields["rpc"].(string)
		switch rpc {
		case "":
		case "RunPodSandbox":
			same(c.t, "pod of "+rpc, fields["pod"], any("e2e/"+p.name))
		case "CreateContainer", "StartContainer":
			same(c.t, "pod of "+rpc, fields["pod"], any("e2e/"+p.name))
			same(c.t, "container of "+rpc, fields["container"], any("main"))
		case "PullImage":
		default:
			c.t.Errorf("%s, which changes nothing, is in the log: %s", rpc, line)
		}
		seen[rpc]++
	}
	for _, rpc := range []string{"RunPodSandbox", "CreateContainer", "StartContainer"} {
		testutil.Assert(c.t, seen[rpc] == 1, "%s is %d times in the log, want once", rpc, seen[rpc])
	}
}

// TestNotReadyWithoutAnEngine starts the server while no engine runs.
func TestNotReadyWithoutAnEngine(t *testing.T) {
	e := newEndpoint(t)
	missing := filepath.Join(filepath.Dir(e.socket), "docker.sock")
	server := adapter.NewForTest(t,
		adapter.Options{Env: rigenv.Require(t),
			Flags: []string{e.flag(), "--metrics-profiling", "--docker-endpoint=unix://" + missing}})
	testutil.Must(t, server.Launch())
	testutil.Eventually(t, func() error {
		status, body, err := e.get("/readyz")
		if err != nil || status != http.StatusServiceUnavailable || !strings.Contains(body, missing) {
			return fmt.Errorf("/readyz: %d %q %w, want 503 that names the engine's socket", status, body, err)
		}
		return nil
	})
	for path, want := range map[string]int{"/healthz": http.StatusOK, "/metrics": http.StatusOK,
		"/debug/pprof/goroutine?debug=1": http.StatusOK} {
		status, _, err := e.get(path)
		testutil.Assert(t, status == want && err == nil, "%s: %d %v, want %d", path, status, err, want)
	}
	same(t, "freshness", e.scrape()["criadapter_cache_fresh"], 0.0)
	testutil.Check(t, server.Stop(t.Context()))
}

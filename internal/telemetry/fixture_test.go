package telemetry

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"google.golang.org/grpc/codes"

	"github.com/criadapter/criadapter/internal/testutil"
)

// served is a Server of a test, on a unix socket.
type served struct {
	t      *testing.T
	client *http.Client
	server *Server
	done   <-chan error
}

func serve(t *testing.T, opts ServerOptions) *served {
	t.Helper()
	var err error
	socket := t.TempDir() + "/metrics.sock"
	if opts.Listener, err = net.Listen("unix", socket); err != nil {
		t.Fatal(err)
	}
	if opts.Ready == nil {
		opts.Ready = func() error { return nil }
	}
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}
	s := &served{t: t, client: &http.Client{Transport: transport}, server: NewServer(opts)}
	s.done = testutil.Go(s.server.Serve)
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		testutil.Check(t, s.server.Close(context.Background()))
		testutil.Check(t, <-s.done)
	})
	return s
}

// get returns the answer's status and body.
func (s *served) get(path string) (int, string) {
	s.t.Helper()
	response, err := s.client.Get("http://metrics" + path)
	testutil.Must(s.t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	testutil.Must(s.t, err)
	return response.StatusCode, string(body)
}

// used returns Metrics after at least one event for each metric.
func used() *Metrics {
	m := NewMetrics(MetricsOptions{Version: "v1.2.3"})
	m.RPC("RunPodSandbox", codes.OK, 20*time.Millisecond)
	m.RPC("RunPodSandbox", codes.Unavailable, time.Second)
	end := func(_ context.Context, done func(error)) func(error) { return done }
	end(m.EngineCall(context.Background(), "create container"))(nil)
	end(m.CNIOperation(context.Background(), "ADD"))(errors.New("no address is left"))
	end(m.Pull(context.Background()))(nil)
	m.Event(3 * time.Millisecond)
	m.LogBatch(4096, 2*time.Millisecond)
	m.Watch(Sources{
		Cache: func() CacheStats {
			return CacheStats{
				Fresh: true, Relisted: time.Now().Add(-time.Minute),
				Pods: map[string]int{"ready": 2}, Containers: map[string]int{"running": 3},
			}
		},
		Logs: func() LogStats {
			return LogStats{Gaps: 1, MissingBytes: 2, MissingEntries: 3, DamagedBytes: 4, Unwatched: 5}
		},
		Streams:    func() map[string]int { return map[string]int{"exec": 5} },
		OCIRuntime: func() (found, works bool) { return true, true },
	})
	return m
}

func emptySources() Sources {
	return Sources{
		Cache:      func() CacheStats { return CacheStats{} },
		Logs:       func() LogStats { return LogStats{} },
		Streams:    func() map[string]int { return nil },
		OCIRuntime: func() (found, works bool) { return false, false },
	}
}

// parse reads an exposition as Prometheus does.
func parse(t *testing.T, body io.Reader) map[string]*dto.MetricFamily {
	t.Helper()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(body)
	testutil.Must(t, err)
	return families
}

// value returns the value of a counter or gauge with these labels.
func value(family *dto.MetricFamily, labels ...string) (float64, bool) {
	for _, metric := range family.GetMetric() {
		has := map[string]string{}
		for _, label := range metric.GetLabel() {
			has[label.GetName()] = label.GetValue()
		}
		all := true
		for i := 0; i < len(labels); i += 2 {
			all = all && has[labels[i]] == labels[i+1]
		}
		if all {
			return metric.GetCounter().GetValue() + metric.GetGauge().GetValue() +
				float64(metric.GetHistogram().GetSampleCount()), true
		}
	}
	return 0, false
}

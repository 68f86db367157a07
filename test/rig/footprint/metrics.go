// Package footprint measures a running criadapter: memory, goroutines, descriptors, files.
package footprint

import (
	"context"
	"fmt"
	"net"
	"net/http"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Metrics reads a server's Prometheus metrics from a unix socket.
type Metrics struct {
	socket string
	client *http.Client
}

// NewMetrics takes the path of the socket. The server may start later.
func NewMetrics(socket string) *Metrics {
	return &Metrics{socket: socket, client: &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true, // tests kill the server
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
	}}}
}

// Flag is the flag that makes the server serve its metrics at the socket.
func (m *Metrics) Flag() string { return "--metrics-bind-addr=unix://" + m.socket }

// Families reads all metrics.
func (m *Metrics) Families(ctx context.Context) (map[string]*dto.MetricFamily, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://criadapter/metrics", nil)
	if err != nil {
		return nil, err
	}
	response, err := m.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the server's metrics: %s", response.Status)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	return parser.TextToMetricFamilies(response.Body)
}

// Calls are how often each CRI method was called since the server's start, with any code. A stream counts when it ends.
func (m *Metrics) Calls(ctx context.Context) (map[string]int, error) {
	families, err := m.Families(ctx)
	if err != nil {
		return nil, err
	}
	calls := make(map[string]int)
	for _, metric := range families["criadapter_rpc_requests_total"].GetMetric() {
		for _, label := range metric.GetLabel() {
			if label.GetName() == "method" {
				calls[label.GetValue()] += int(metric.GetCounter().GetValue())
			}
		}
	}
	return calls, nil
}

// Value returns the value of a counter or gauge without labels.
func (m *Metrics) Value(ctx context.Context, name string) (float64, error) {
	families, err := m.Families(ctx)
	if err != nil {
		return 0, err
	}
	for _, metric := range families[name].GetMetric() {
		return metric.GetCounter().GetValue() + metric.GetGauge().GetValue() + metric.GetUntyped().GetValue(), nil
	}
	return 0, fmt.Errorf("there is no metric %s", name)
}

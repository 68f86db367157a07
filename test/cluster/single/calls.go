package single

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// callsMetric counts CRI requests that are over, by method and code.
const callsMetric = "criadapter_rpc_requests_total"

// Calls are how often each CRI method was called since the kubelet began, by those that are over: a stream counts when it
// ends. It is nil for a server that does not count.
func (c *Cluster) Calls(ctx context.Context) (map[string]int, error) {
	if c.Server.calls == nil {
		return nil, nil
	}
	calls, err := c.Server.calls(ctx)
	for method, before := range c.callsBefore {
		if calls[method] -= before; calls[method] == 0 {
			delete(calls, method)
		}
	}
	return calls, err
}

// countCalls asks the metrics on a unix socket.
func countCalls(ctx context.Context, socket string) (map[string]int, error) {
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
	}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://criadapter/metrics", nil)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the server's metrics: %s", response.Status)
	}
	return parseCalls(response.Body)
}

// parseCalls reads the counts out of Prometheus' text.
func parseCalls(text io.Reader) (map[string]int, error) {
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(text)
	if err != nil {
		return nil, fmt.Errorf("the server's metrics: %w", err)
	}
	calls := make(map[string]int)
	for _, metric := range families[callsMetric].GetMetric() {
		for _, label := range metric.GetLabel() {
			if label.GetName() == "method" {
				calls[label.GetValue()] += int(metric.GetCounter().GetValue())
			}
		}
	}
	return calls, nil
}

// Package footprint tells what a running criadapter uses of the machine: memory, goroutines, descriptors, files.
package footprint

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
)

// Metrics are what a server says of itself, on a unix socket.
type Metrics struct {
	socket string
	client *http.Client
}

// NewMetrics takes the path of the socket, at which there may be no server yet.
func NewMetrics(socket string) *Metrics {
	return &Metrics{socket: socket, client: &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true, // the server is killed
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
	}}}
}

// Flag is the server's, which makes it serve them.
func (m *Metrics) Flag() string { return "--metrics-bind-addr=unix://" + m.socket }

// Value returns the value of a metric without labels.
func (m *Metrics) Value(ctx context.Context, name string) (float64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://criadapter/metrics", nil)
	if err != nil {
		return 0, err
	}
	response, err := m.client.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		if text, found := strings.CutPrefix(lines.Text(), name+" "); found {
			return strconv.ParseFloat(text, 64)
		}
	}
	return 0, fmt.Errorf("there is no metric %s: %w", name, lines.Err())
}

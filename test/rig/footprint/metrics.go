// Package footprint tells what a running criadapter uses of the machine: memory, goroutines, descriptors, files.
package footprint

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Metrics are what a server says of itself.
type Metrics struct {
	dir    string
	client *http.Client
}

// NewMetrics makes a directory in workDir for the socket, which Close removes. The path has to be short, as those of all
// sockets.
func NewMetrics(workDir string) (*Metrics, error) {
	dir, err := os.MkdirTemp(workDir, "m")
	if err != nil {
		return nil, err
	}
	m := &Metrics{dir: dir}
	m.client = &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true, // the server is killed
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", m.socket())
		},
	}}
	return m, nil
}

func (m *Metrics) socket() string { return filepath.Join(m.dir, "m.sock") }

// Flag is the server's, which makes it serve them.
func (m *Metrics) Flag() string { return "--metrics-bind-addr=unix://" + m.socket() }

// Close removes the directory.
func (m *Metrics) Close() error { return os.RemoveAll(m.dir) }

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

package chaos

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// metrics are what a server says of itself.
type metrics struct {
	t      *testing.T
	socket string
	client *http.Client
}

func newMetrics(t *testing.T, env rigenv.Env) *metrics {
	t.Helper()
	dir, err := os.MkdirTemp(env.WorkDir, "m") // short, for the socket in it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	m := &metrics{t: t, socket: filepath.Join(dir, "m.sock")}
	m.client = &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true, // the server is killed
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", m.socket)
		},
	}}
	return m
}

func (m *metrics) flag() string { return "--metrics-bind-addr=unix://" + m.socket }

// value returns the value of a metric without labels.
func (m *metrics) value(name string) float64 {
	m.t.Helper()
	response, err := m.client.Get("http://criadapter/metrics")
	if err != nil {
		m.t.Fatal(err)
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		if text, found := strings.CutPrefix(lines.Text(), name+" "); found {
			value, err := strconv.ParseFloat(text, 64)
			if err != nil {
				m.t.Fatal(err)
			}
			return value
		}
	}
	m.t.Fatalf("there is no metric %s: %v", name, lines.Err())
	return 0
}

package config

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/spf13/pflag"
)

// MetricsSocket returns the path of MetricsBindAddr, empty if it is not a unix socket.
func (c Config) MetricsSocket() string { return unixPath(c.MetricsBindAddr) }

func checkMetrics(c Config) error {
	switch {
	case c.MetricsBindAddr == "" && c.MetricsProfiling:
		return errors.New("--metrics-profiling needs a --metrics-bind-addr to serve the profiles on")
	case c.MetricsBindAddr == "":
		return nil
	case strings.Contains(c.MetricsBindAddr, "://"):
		return checkSocketPath("metrics-bind-addr", c.MetricsBindAddr)
	}
	if err := checkHostPort(c.MetricsBindAddr); err != nil {
		return fmt.Errorf("--metrics-bind-addr: %q is neither host:port nor unix:// with an absolute path: %v",
			c.MetricsBindAddr, err)
	}
	return nil
}

func checkTracing(c Config) error {
	const million = 1_000_000
	if c.TracingSamplingRate < 0 || c.TracingSamplingRate > million {
		return fmt.Errorf("--tracing-sampling-rate-per-million: %d is not between 0 and %d", c.TracingSamplingRate,
			million)
	}
	if c.TracingEndpoint == "" {
		return nil
	}
	u, err := url.Parse(c.TracingEndpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.Port() == "" ||
		u.Path != "" && u.Path != "/" || u.RawQuery != "" {
		return errors.New("--tracing-endpoint: give the collector as http://host:port or https://host:port")
	}
	if u.User != nil { // a verbose Status shows the configuration
		return errors.New("--tracing-endpoint: it must not have a user or a password, because crictl info shows it")
	}
	return nil
}

// addObserveFlags registers the flags of metrics and traces.
func (c *Config) addObserveFlags(flags *pflag.FlagSet) {
	flags.StringVar(&c.MetricsBindAddr, "metrics-bind-addr", c.MetricsBindAddr,
		"host:port on loopback, or unix:// with a path, to serve /metrics, /healthz, /readyz, /statusz and "+
			"/flagz on (default: not served)")
	flags.BoolVar(&c.MetricsProfiling, "metrics-profiling", c.MetricsProfiling,
		"serve Go profiles below /debug/pprof/ on --metrics-bind-addr")
	flags.StringVar(&c.TracingEndpoint, "tracing-endpoint", c.TracingEndpoint,
		"OpenTelemetry collector for traces over OTLP gRPC, http://host:port (without TLS) or https://host:port "+
			"(default: no traces)")
	flags.IntVar(&c.TracingSamplingRate, "tracing-sampling-rate-per-million", c.TracingSamplingRate,
		"traces to begin per million requests that carry no trace; the kubelet's traces are always continued")
}

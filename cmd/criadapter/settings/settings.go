// Package settings decides whether the server can start with its settings, for the start and for the commands alike.
package settings

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/image"
	"github.com/criadapter/criadapter/internal/config"
	"github.com/criadapter/criadapter/stats"
	"github.com/criadapter/criadapter/streaming"
)

// Validate returns an error for every value that the server would refuse at its start, with its flag. It looks at the
// values alone: files, sockets and host names differ between machines, so only the start can judge them.
func Validate(cfg config.Config) error {
	return errors.Join(
		cfg.Validate(),
		flagError("docker-endpoint", docker.CheckHost(cfg.DockerEndpoint)),
		flagError("pod-infra-container-image", image.CheckSandboxImage(cfg.SandboxImage)),
		flagError("cri-metrics", stats.CheckGroups(cfg.MetricGroups())),
		checkStreaming(cfg),
		checkMetrics(cfg),
		checkApart(cfg),
	)
}

// flagError adds the flag to an error about the flag's value.
func flagError(flag string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("--%s: %w", flag, err)
}

// literal reports whether an address can be judged without looking up its host. config.Validate has checked its form.
func literal(address string) bool {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	if _, err := net.LookupPort("tcp", port); err != nil {
		return false
	}
	_, err = netip.ParseAddr(host)
	return host == "" || err == nil
}

func checkStreaming(cfg config.Config) error {
	if !literal(cfg.StreamingBindAddr) {
		return nil
	}
	return flagError("streaming-bind-addr", streaming.CheckAddress(streaming.Options{
		Address: cfg.StreamingBindAddr, CertFile: cfg.StreamingTLSCertFile, AllowPlaintext: cfg.StreamingAllowPlaintext,
	}))
}

func checkMetrics(cfg config.Config) error {
	if !literal(cfg.MetricsBindAddr) {
		return nil
	}
	_, err := MetricsAddress(cfg.MetricsBindAddr)
	return err
}

// MetricsAddress resolves the host:port of --metrics-bind-addr. It refuses addresses that other machines reach, because
// there is no authentication.
func MetricsAddress(hostPort string) (*net.TCPAddr, error) {
	address, err := net.ResolveTCPAddr("tcp", hostPort)
	if err != nil {
		return nil, flagError("metrics-bind-addr", err)
	}
	if !address.IP.IsLoopback() {
		return nil, fmt.Errorf("--metrics-bind-addr: %s is not a loopback address, so other machines could read the "+
			"metrics: bind to 127.0.0.1 or a unix socket, and put a proxy with authentication in front", hostPort)
	}
	return address, nil
}

// checkApart refuses one socket for two purposes: its second user would replace it, or find it in use.
func checkApart(cfg config.Config) error {
	type use struct{ flag, path string }
	uses := []use{
		{"container-runtime-endpoint", cfg.SocketPath()},
		{"docker-endpoint", cfg.DockerEndpoint},
		{"metrics-bind-addr", cfg.MetricsSocket()},
	}
	if cfg.NRI == config.NRIEnabled {
		uses = append(uses, use{"nri-socket", cfg.NRISocket})
	}
	var errs []error
	flags := map[string]string{}
	for _, u := range uses {
		path := config.CleanSocket(u.path)
		switch other, taken := flags[path]; {
		case u.path == "":
		case taken:
			errs = append(errs, fmt.Errorf("--%s: %s is the socket of --%s", u.flag, u.path, other))
		default:
			flags[path] = u.flag
		}
	}
	return errors.Join(append(errs, checkPorts(cfg))...)
}

// checkPorts refuses the same port for metrics and streams. An address for all interfaces includes loopback.
func checkPorts(cfg config.Config) error {
	if !literal(cfg.MetricsBindAddr) || !literal(cfg.StreamingBindAddr) {
		return nil
	}
	metrics, err := net.ResolveTCPAddr("tcp", cfg.MetricsBindAddr)
	if err != nil {
		return flagError("metrics-bind-addr", err)
	}
	streams, err := net.ResolveTCPAddr("tcp", cfg.StreamingBindAddr)
	if err != nil {
		return flagError("streaming-bind-addr", err)
	}
	all := streams.IP == nil || streams.IP.IsUnspecified()
	if metrics.Port != 0 && metrics.Port == streams.Port && (all || metrics.IP.Equal(streams.IP)) {
		return fmt.Errorf("--metrics-bind-addr: %s has the port of --streaming-bind-addr", cfg.MetricsBindAddr)
	}
	return nil
}

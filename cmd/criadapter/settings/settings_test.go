package settings

import (
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/config"
	"github.com/criadapter/criadapter/internal/testutil"
)

func TestDefaultsAreValid(t *testing.T) {
	testutil.Must(t, Validate(config.Default()))
}

// Each value passes config.Validate, and a package refuses it.
func TestRefusalsNameTheFlag(t *testing.T) {
	for name, test := range map[string]struct {
		change func(c *config.Config)
		want   string
	}{
		"no URL": {func(c *config.Config) { c.DockerEndpoint = "docker" }, "--docker-endpoint"},
		"an engine elsewhere": {func(c *config.Config) { c.DockerEndpoint = "tcp://192.0.2.1:2375" },
			"--docker-endpoint"},
		"sandbox image":    {func(c *config.Config) { c.SandboxImage = "BAD NAME" }, "--pod-infra-container-image"},
		"group of metrics": {func(c *config.Config) { c.CRIMetrics = "cpu,nonsense" }, "--cri-metrics"},
		"no group":         {func(c *config.Config) { c.CRIMetrics = "" }, "--cri-metrics"},
		"metrics on 0.0.0.0": {func(c *config.Config) { c.MetricsBindAddr = "0.0.0.0:9092" },
			"--metrics-bind-addr: 0.0.0.0:9092 is not a loopback address"},
		"metrics without a host": {func(c *config.Config) { c.MetricsBindAddr = ":9092" }, "--metrics-bind-addr"},
		"streams without TLS on 0.0.0.0": {func(c *config.Config) { c.StreamingBindAddr = "0.0.0.0:10010" },
			"--streaming-bind-addr"},
		"streams without TLS or a host": {func(c *config.Config) { c.StreamingBindAddr = ":10010" },
			"--streaming-bind-addr"},
		"metrics on the CRI socket": {
			func(c *config.Config) { c.MetricsBindAddr = "unix:///run/criadapter/../criadapter/criadapter.sock" },
			"is the socket of --container-runtime-endpoint"},
		"the engine's socket": {func(c *config.Config) { c.Endpoint = "unix:///run/docker.sock" },
			"--docker-endpoint: unix:///var/run/docker.sock is the socket of --container-runtime-endpoint"},
		"NRI on the CRI socket": {
			func(c *config.Config) { c.NRI, c.NRISocket = config.NRIEnabled, c.SocketPath() }, "--nri-socket"},
		"one port": {
			func(c *config.Config) {
				c.MetricsBindAddr, c.StreamingBindAddr, c.StreamingAllowPlaintext = "127.0.0.1:9092", ":9092", true
			}, "has the port of --streaming-bind-addr"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := config.Default()
			test.change(&cfg)
			testutil.Check(t, cfg.Validate())
			err := Validate(cfg)
			testutil.Assert(t, err != nil && strings.Contains(err.Error(), test.want),
				"got %v, want an error with %q", err, test.want)
		})
	}
}

// Only the start judges values that depend on the machine.
func TestWhatOnlyTheStartCanJudge(t *testing.T) {
	for name, change := range map[string]func(c *config.Config){
		"host names": func(c *config.Config) {
			c.MetricsBindAddr, c.StreamingBindAddr = "no-such-host.invalid:9092", "no-such-host.invalid:9092"
		},
		"files": func(c *config.Config) {
			c.StreamingBindAddr = "0.0.0.0:10010"
			c.StreamingTLSCertFile, c.StreamingTLSKeyFile = "/no/such/cert", "/no/such/key"
		},
		"any port twice": func(c *config.Config) { c.MetricsBindAddr = "127.0.0.1:0" },
		"two loopbacks": func(c *config.Config) {
			c.MetricsBindAddr, c.StreamingBindAddr = "127.0.0.1:9092", "[::1]:9092"
		},
		"NRI that is off":  func(c *config.Config) { c.NRISocket = c.SocketPath() },
		"systemd's socket": func(c *config.Config) { c.Endpoint = "fd://" },
	} {
		cfg := config.Default()
		change(&cfg)
		testutil.Check(t, Validate(cfg), name)
	}
}

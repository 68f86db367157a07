package config

import (
	"fmt"
	"os"

	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"
)

// flagConfig names the flag of the configuration file.
const flagConfig = "config"

// AddFlags registers the flags, with c's values as their defaults. Where the
// meaning is the same they have the names that cri-dockerd gave them, so that
// a node's unit file needs only another program's name.
func (c *Config) AddFlags(flags *pflag.FlagSet) {
	flags.String(flagConfig, "", "YAML file with these settings by their flags' names; a flag on the command line wins")
	flags.StringVar(&c.Endpoint, "container-runtime-endpoint", c.Endpoint, "unix socket to serve CRI on, or fd:// for the one of a systemd unit; for the kubelet's flag of the same name and crictl's --runtime-endpoint")
	flags.StringVar(&c.DockerEndpoint, "docker-endpoint", c.DockerEndpoint, "unix socket of the local Docker Engine (20.10 or later)")
	flags.StringVar(&c.RootDirectory, "root-directory", c.RootDirectory, "folder for what must survive a restart")
	flags.StringVar(&c.RootDirectory, "cri-dockerd-root-directory", c.RootDirectory, "the same as --root-directory")
	flags.StringVar(&c.NetworkPlugin, "network-plugin", c.NetworkPlugin, "who connects pods: cni (CNI plugins) or bridge (Docker's default bridge)")
	flags.StringVar(&c.CNIConfDir, "cni-conf-dir", c.CNIConfDir, "folder of CNI configurations; the first valid one in lexical order is used, changes are picked up")
	flags.StringVar(&c.CNIBinDir, "cni-bin-dir", c.CNIBinDir, "comma-separated folders of CNI plugins")
	flags.StringVar(&c.CNICacheDir, "cni-cache-dir", c.CNICacheDir, "folder for CNI results (default: cni below the root directory)")
	flags.StringVar(&c.SandboxImage, "pod-infra-container-image", c.SandboxImage, "image of the pods' sandboxes, pulled when missing (default: built in, nothing to pull)")
	flags.Var(&c.ImagePullProgressDeadline, "image-pull-progress-deadline", "cancel a pull without progress for this long")
	flags.Var(&c.RuntimeRequestTimeout, "runtime-request-timeout", "bound of a request whose client set no deadline; pulls, stops and execs have their own")
	flags.StringVar(&c.StreamingBindAddr, "streaming-bind-addr", c.StreamingBindAddr, "address for exec, attach and port-forward, port 0 for any")
	flags.StringVar(&c.StreamingTLSCertFile, "streaming-tls-cert-file", c.StreamingTLSCertFile, "PEM certificate for exec, attach and port-forward over TLS; read again when it is renewed")
	flags.StringVar(&c.StreamingTLSKeyFile, "streaming-tls-private-key-file", c.StreamingTLSKeyFile, "PEM key of --streaming-tls-cert-file")
	flags.BoolVar(&c.StreamingAllowPlaintext, "streaming-allow-plaintext", c.StreamingAllowPlaintext, "allow a --streaming-bind-addr other than loopback without TLS")
	flags.Var(&c.StreamingIdleTimeout, "streaming-connection-idle-timeout", "end an exec, attach or port-forward session without traffic for this long")
	flags.StringVar(&c.CRIMetrics, "cri-metrics", c.CRIMetrics, "comma-separated groups of container metrics to collect for the kubelet's /metrics/cadvisor, all or none")
	flags.StringVar(&c.ContainerLogMode, "container-log-mode", c.ContainerLogMode, "how a new container's log comes to the kubelet's path: copy (in the CRI format) or symlink (the engine's own json-file)")
	flags.StringVar(&c.LogLevel, "log-level", c.LogLevel, "error, warn, info, debug or trace")
	flags.StringVar(&c.LogFormat, "log-format", c.LogFormat, "text or json")
	flags.StringVar(&c.MetricsBindAddr, "metrics-bind-addr", c.MetricsBindAddr, "host:port on loopback, or unix:// with a path, to serve /metrics, /healthz and /readyz on (default: not served)")
	flags.BoolVar(&c.MetricsProfiling, "metrics-profiling", c.MetricsProfiling, "serve Go profiles below /debug/pprof/ on --metrics-bind-addr")
	flags.StringVar(&c.TracingEndpoint, "tracing-endpoint", c.TracingEndpoint, "OpenTelemetry collector to send traces to over OTLP gRPC, http://host:port (in the clear) or https://host:port (default: no traces)")
	flags.IntVar(&c.TracingSamplingRate, "tracing-sampling-rate-per-million", c.TracingSamplingRate, "how many of a million requests without a trace begin one; the kubelet's traces are continued at any rate")
}

// Load fills c from the file that --config names, if any, and then from the
// flags that were given. An unknown name in the file is an error.
func (c *Config) Load(flags *pflag.FlagSet) error {
	path, err := flags.GetString(flagConfig)
	if err != nil || path == "" {
		return err
	}
	given := map[string]string{}
	flags.Visit(func(f *pflag.Flag) { given[f.Name] = f.Value.String() })
	raw, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("--%s: %w", flagConfig, err)
	}
	if err := yaml.UnmarshalStrict(raw, c); err != nil {
		return fmt.Errorf("--%s: %s: %w", flagConfig, path, err)
	}
	for name, value := range given { // the file has overwritten what the flags point to
		if err := flags.Set(name, value); err != nil {
			return err
		}
	}
	return nil
}

// Package config is the program's configuration: defaults, flags and an optional strict YAML file.
package config

import (
	"errors"
	"fmt"
	"net"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Names of the network plugins.
const (
	// NetworkCNI joins pods to a network through CNI plugins.
	NetworkCNI = "cni"
	// NetworkBridge lets Docker Engine connect pods to its default bridge.
	NetworkBridge = "bridge"
)

// Values of CRIMetrics for all groups of metrics and for none.
const (
	metricsAll  = "all"
	metricsNone = "none"
)

// Values of ContainerLogMode.
const (
	// LogModeCopy writes the CRI log as a separate file in the CRI format.
	LogModeCopy = "copy"
	// LogModeSymlink makes the CRI log a link to the engine's json-file.
	LogModeSymlink = "symlink"
)

// Values of SandboxContainer.
const (
	SandboxContainerNeeded = "needed"
	sandboxContainerAlways = "always"
)

// Values of OCIRuntime.
const (
	ociRuntimeAuto     = "auto"
	ociRuntimeOff      = "off"
	ociRuntimeRequired = "required"
)

// Values of Migrate.
const (
	// MigrateCRIDockerd takes pods of cri-dockerd over at the start.
	MigrateCRIDockerd = "cri-dockerd"
	// MigrateNone leaves pods of cri-dockerd alone.
	MigrateNone = "none"
)

// Values of LogFormat.
const (
	LogText = "text"
	LogJSON = "json"
)

// Config has all settings. Their YAML names equal the flags' names.
type Config struct {
	// Endpoint is the unix socket for CRI as a URL, or endpointSystemd.
	Endpoint string `json:"container-runtime-endpoint"`
	// DockerEndpoint is the engine's unix socket, as a URL.
	DockerEndpoint string `json:"docker-endpoint"`
	// RootDirectory is the directory of data that must survive a restart.
	RootDirectory string `json:"root-directory"`

	// NetworkPlugin is NetworkCNI, NetworkBridge or one of cri-dockerd's names for the latter, see Bridge.
	NetworkPlugin string `json:"network-plugin"`
	CNIConfDir    string `json:"cni-conf-dir"`
	// CNIBinDir is a comma-separated list of directories.
	CNIBinDir string `json:"cni-bin-dir"`
	// CNICacheDir defaults to the directory cni below RootDirectory.
	CNICacheDir string `json:"cni-cache-dir"`
	// CNIGC lets CNI plugins remove leases that belong to no pod of this program. No other program may use the CNI
	// network then.
	CNIGC bool `json:"cni-gc"`

	// OCIRuntime is ociRuntimeAuto, ociRuntimeOff or ociRuntimeRequired.
	OCIRuntime string `json:"oci-runtime"`
	// RuntimeAnnotations is a comma-separated list of patterns, see AnnotationPatterns.
	RuntimeAnnotations string `json:"runtime-annotations"`
	// ExecThroughEngine makes the engine run all commands in containers and send all stop signals. If it is false, runc
	// runs commands and criadapter sends stop signals where possible.
	ExecThroughEngine bool `json:"exec-through-engine"`
	// SandboxContainer is SandboxContainerNeeded or sandboxContainerAlways.
	SandboxContainer string `json:"sandbox-container"`

	// NRI is NRIEnabled or NRIDisabled. NRISocket is the path of the socket for plugins of the Node Resource Interface.
	// Plugins in NRIPluginDir are started, with configurations in NRIPluginConfigDir.
	NRI                string `json:"nri"`
	NRISocket          string `json:"nri-socket"`
	NRIPluginDir       string `json:"nri-plugin-dir"`
	NRIPluginConfigDir string `json:"nri-plugin-config-dir"`

	// Migrate is MigrateCRIDockerd or MigrateNone. The next two settings are comma-separated directories that
	// cri-dockerd or dockershim used: first for its checkpoints, then for libcni's cache.
	Migrate                string `json:"migrate"`
	MigrateRootDirectories string `json:"migrate-root-directories"`
	MigrateCNICacheDirs    string `json:"migrate-cni-cache-dirs"`
	// MigrateLogHistory is the size of the part of a migrated container's old log that is converted, in bytes as a
	// Kubernetes quantity.
	MigrateLogHistory string `json:"migrate-log-history"`

	// SandboxImage is the sandbox image, empty for the built-in one.
	SandboxImage              string   `json:"pod-infra-container-image"`
	ImagePullProgressDeadline Duration `json:"image-pull-progress-deadline"`
	// ImagePolicy is the path of a policy file, see package image/trust. It is empty for none.
	ImagePolicy string `json:"image-policy"`
	// RuntimeRequestTimeout bounds a call without a client's deadline, except calls that always take long.
	RuntimeRequestTimeout Duration `json:"runtime-request-timeout"`

	// StreamingBindAddr is the host:port for exec, attach and port-forward. Load adds a port to an IP address.
	StreamingBindAddr string `json:"streaming-bind-addr"`
	// StreamingTLSCertFile and StreamingTLSKeyFile are PEM files for TLS on StreamingBindAddr, both empty for none.
	StreamingTLSCertFile string `json:"streaming-tls-cert-file"`
	StreamingTLSKeyFile  string `json:"streaming-tls-private-key-file"`
	// StreamingAllowPlaintext allows an address other than loopback without TLS.
	StreamingAllowPlaintext bool `json:"streaming-allow-plaintext"`
	// StreamingIdleTimeout ends a session without traffic.
	StreamingIdleTimeout Duration `json:"streaming-connection-idle-timeout"`

	// CRIMetrics are the groups of metrics of ListPodSandboxMetrics, as a comma-separated list, or metricsAll or
	// metricsNone.
	CRIMetrics string `json:"cri-metrics"`

	// ContainerLogMode is LogModeCopy or LogModeSymlink, for new containers.
	ContainerLogMode string `json:"container-log-mode"`
	// ContainerLogBufferSize bounds the engine's own log of each new container with LogModeCopy, in bytes as a
	// Kubernetes quantity.
	ContainerLogBufferSize string `json:"container-log-buffer-size"`

	// LogLevel is a level of logrus, LogFormat is LogText or LogJSON.
	LogLevel  string `json:"log-level"`
	LogFormat string `json:"log-format"`

	// MetricsBindAddr is a host:port on loopback, or a unix socket as a URL, for metrics and health. It is empty for
	// none. MetricsProfiling adds profiles there.
	MetricsBindAddr  string `json:"metrics-bind-addr"`
	MetricsProfiling bool   `json:"metrics-profiling"`
	// TracingEndpoint is an OTLP collector as a URL, empty for none.
	TracingEndpoint string `json:"tracing-endpoint"`
	// TracingSamplingRate is the number of requests that begin a trace, per million requests whose client sent no trace
	// context.
	TracingSamplingRate int `json:"tracing-sampling-rate-per-million"`
}

// Default is the configuration of a plain Docker host.
func Default() Config {
	return Config{
		Endpoint:                  "unix:///run/criadapter/criadapter.sock",
		DockerEndpoint:            "unix:///var/run/docker.sock",
		RootDirectory:             "/var/lib/criadapter",
		NetworkPlugin:             NetworkCNI,
		CNIConfDir:                "/etc/cni/net.d",
		CNIBinDir:                 "/opt/cni/bin",
		Migrate:                   MigrateCRIDockerd,
		MigrateRootDirectories:    "/var/lib/cri-dockerd,/var/lib/dockershim",
		MigrateCNICacheDirs:       "/var/lib/cni/cache,/var/lib/cni",
		MigrateLogHistory:         "10M",
		ImagePullProgressDeadline: Duration(time.Minute),
		RuntimeRequestTimeout:     Duration(2 * time.Minute),
		StreamingBindAddr:         "127.0.0.1:0",
		StreamingIdleTimeout:      Duration(4 * time.Hour),
		CRIMetrics:                metricsAll,
		ContainerLogMode:          LogModeCopy,
		ContainerLogBufferSize:    "30M",
		LogLevel:                  "info",
		OCIRuntime:                ociRuntimeAuto,
		NRI:                       NRIDisabled,
		NRISocket:                 "/var/run/nri/nri.sock",
		NRIPluginDir:              "/opt/nri/plugins",
		NRIPluginConfigDir:        "/etc/nri/conf.d",
		SandboxContainer:          SandboxContainerNeeded,
		LogFormat:                 LogText,
	}
}

// endpointSystemd is the Endpoint for a socket from systemd, as in cri-dockerd's unit.
const endpointSystemd = "fd://"

// SocketPath is the path of Endpoint, empty for endpointSystemd.
func (c Config) SocketPath() string { return unixPath(c.Endpoint) }

// unixPath returns the path of a unix:// URL, empty for any other text.
func unixPath(url string) string {
	path, found := strings.CutPrefix(url, "unix://")
	if !found {
		return ""
	}
	return path
}

// CleanSocket returns the path of a unix socket in a form that is the same for each spelling of the socket. Kubelets
// take a path without unix://, and /var/run is a link to /run.
func CleanSocket(endpoint string) string {
	path := filepath.Clean(strings.TrimPrefix(endpoint, "unix://"))
	if below, ok := strings.CutPrefix(path, "/var/run/"); ok {
		return "/run/" + below
	}
	return path
}

// Bridge reports whether Docker Engine connects pods to its default bridge. cri-dockerd's units select the bridge with
// an empty name or no-op.
func (c Config) Bridge() bool {
	return slices.Contains([]string{NetworkBridge, "", "no-op"}, c.NetworkPlugin)
}

// BinDirs returns CNIBinDir as a list.
func (c Config) BinDirs() []string {
	return splitList(c.CNIBinDir)
}

// MetricGroups returns CRIMetrics as a list, nil for all groups.
func (c Config) MetricGroups() []string {
	switch c.CRIMetrics {
	case metricsAll:
		return nil
	case metricsNone:
		return []string{}
	default:
		return strings.Split(c.CRIMetrics, ",")
	}
}

// LogBufferBytes returns ContainerLogBufferSize in bytes, 0 if it is invalid.
func (c Config) LogBufferBytes() int64 {
	quantity, _ := resource.ParseQuantity(c.ContainerLogBufferSize) // 0 with an error
	return quantity.Value()
}

// RecordsDir returns the directory of the pods' records.
func (c Config) RecordsDir() string { return filepath.Join(c.RootDirectory, "pods") }

// CacheDir returns CNICacheDir or its default.
func (c Config) CacheDir() string {
	if c.CNICacheDir != "" {
		return c.CNICacheDir
	}
	return filepath.Join(c.RootDirectory, "cni")
}

// Validate returns an error for every invalid value, with its flag. Package cmd/criadapter/settings checks the values
// that only other packages can judge.
func (c Config) Validate() error {
	return errors.Join(
		checkSocket("container-runtime-endpoint", c.Endpoint),
		checkDir("root-directory", c.RootDirectory),
		checkNetwork(c),
		checkPositive("image-pull-progress-deadline", c.ImagePullProgressDeadline),
		checkImagePolicy(c.ImagePolicy),
		checkPositive("runtime-request-timeout", c.RuntimeRequestTimeout),
		checkBind(c.StreamingBindAddr),
		checkTLS(c),
		checkPositive("streaming-connection-idle-timeout", c.StreamingIdleTimeout),
		checkChoice("oci-runtime", c.OCIRuntime, ociRuntimeAuto, ociRuntimeOff, ociRuntimeRequired),
		checkAnnotations(c),
		checkChoice("sandbox-container", c.SandboxContainer, sandboxContainerAlways, SandboxContainerNeeded),
		checkChoice("container-log-mode", c.ContainerLogMode, LogModeCopy, LogModeSymlink),
		checkLogBuffer(c.ContainerLogBufferSize),
		checkMigrate(c),
		checkNRI(c),
		checkLevel(c.LogLevel),
		checkChoice("log-format", c.LogFormat, LogText, LogJSON),
		checkMetrics(c),
		checkTracing(c),
	)
}

func checkSocket(flag, endpoint string) error {
	if endpoint == endpointSystemd {
		return nil
	}
	if !strings.HasPrefix(endpoint, "unix:///") {
		return fmt.Errorf("--%s: %q must be unix:// with an absolute path, or fd:// for the socket of a systemd unit",
			flag, endpoint)
	}
	return checkSocketPath(flag, endpoint)
}

// checkSocketPath checks a unix socket as a URL.
func checkSocketPath(flag, endpoint string) error {
	path, ok := strings.CutPrefix(endpoint, "unix://")
	if !ok || !filepath.IsAbs(path) {
		return fmt.Errorf("--%s: %q must be unix:// with an absolute path", flag, endpoint)
	}
	// The kernel limits sockaddr_un with its final NUL.
	if len(path) > 107 {
		return fmt.Errorf("--%s: the path of a unix socket may have 107 bytes, this one has %d", flag, len(path))
	}
	return nil
}

func checkDir(flag, path string) error {
	if !filepath.IsAbs(path) {
		return fmt.Errorf("--%s: %q is not an absolute path", flag, path)
	}
	return nil
}

// checkImagePolicy checks the path only: the file may appear later, and until then no image is allowed.
func checkImagePolicy(path string) error {
	if path == "" {
		return nil
	}
	return checkDir("image-policy", path)
}

func checkNetwork(c Config) error {
	switch {
	case c.Bridge():
		// Pods that joined the CNI network earlier still need a DEL of the plugins.
		return checkCNIDirs(c)
	case c.NetworkPlugin == NetworkCNI:
		errs := []error{checkCNIDirs(c)}
		if len(c.BinDirs()) == 0 {
			errs = append(errs, errors.New("--cni-bin-dir: at least one directory is needed"))
		}
		return errors.Join(errs...)
	default:
		return checkChoice("network-plugin", c.NetworkPlugin, NetworkCNI, NetworkBridge)
	}
}

func checkCNIDirs(c Config) error {
	errs := []error{checkDir("cni-conf-dir", c.CNIConfDir), checkDir("cni-cache-dir", c.CacheDir())}
	for _, dir := range c.BinDirs() {
		errs = append(errs, checkDir("cni-bin-dir", dir))
	}
	return errors.Join(errs...)
}

func checkPositive(flag string, d Duration) error {
	if d <= 0 {
		return fmt.Errorf("--%s: %s must be more than zero", flag, time.Duration(d))
	}
	return nil
}

func checkBind(address string) error {
	if err := checkHostPort(address); err != nil {
		return fmt.Errorf("--streaming-bind-addr: %q is not host:port: %v", address, err)
	}
	return nil
}

// checkHostPort checks the form of a TCP address and its port. It does not look up the host.
func checkHostPort(address string) error {
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	return err
}

func checkTLS(c Config) error {
	if (c.StreamingTLSCertFile == "") != (c.StreamingTLSKeyFile == "") {
		return errors.New(
			"--streaming-tls-cert-file and --streaming-tls-private-key-file go together: give both or neither")
	}
	return nil
}

// checkChoice checks that the value of a flag is one of its choices.
func checkChoice(flag, value string, choices ...string) error {
	if slices.Contains(choices, value) {
		return nil
	}
	last := len(choices) - 1
	return fmt.Errorf("--%s: %q is neither %s nor %s", flag, value, strings.Join(choices[:last], ", "), choices[last])
}

// AnnotationPatterns returns RuntimeAnnotations as a list of patterns for path.Match.
func (c Config) AnnotationPatterns() []string {
	return strings.FieldsFunc(c.RuntimeAnnotations, func(r rune) bool { return r == ',' || r == ' ' })
}

func checkAnnotations(c Config) error {
	for _, pattern := range c.AnnotationPatterns() {
		if _, err := path.Match(pattern, ""); err != nil {
			return fmt.Errorf("--runtime-annotations: %q: %w", pattern, err)
		}
	}
	return nil
}

// minLogBuffer is the least ContainerLogBufferSize. Two thirds of it must hold a container's output while criadapter is
// away.
const minLogBuffer = 3_000_000

func checkLogBuffer(size string) error {
	quantity, err := resource.ParseQuantity(size)
	if err != nil {
		return fmt.Errorf("--container-log-buffer-size: %q is not a size in bytes such as 30M", size)
	}
	if quantity.Value() < minLogBuffer {
		return fmt.Errorf("--container-log-buffer-size: %q is less than %d bytes", size, minLogBuffer)
	}
	return nil
}

func checkLevel(level string) error {
	levels := []string{"panic", "fatal", "error", "warn", "warning", "info", "debug", "trace"}
	if !slices.Contains(levels, strings.ToLower(level)) {
		return fmt.Errorf("--log-level: %q is none of panic, fatal, error, warn, info, debug, trace", level)
	}
	return nil
}

package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/criadapter/criadapter/internal/testutil"
)

func load(t *testing.T, args ...string) (Config, error) {
	t.Helper()
	c := Default()
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	c.AddFlags(flags)
	if err := flags.Parse(args); err != nil {
		return c, err
	}
	if _, err := c.Load(flags); err != nil {
		return c, err
	}
	return c, c.Validate()
}

func file(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	testutil.Must(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

func TestDefaultsAreValid(t *testing.T) {
	c, err := load(t)
	testutil.Must(t, err)
	testutil.Equal(t, c.SocketPath(), "/run/criadapter/criadapter.sock", "socket")
	testutil.Equal(t, c.CacheDir(), "/var/lib/criadapter/cni", "CNI cache")
}

// The flags in `cri-dockerd --help` of v0.4.3 that have no effect here.
func TestCriDockerdsRemainingFlags(t *testing.T) {
	c := Default()
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	c.AddFlags(flags)
	args := []string{"--hairpin-mode", "promiscuous-bridge", "--ipv6-dual-stack", "--network-plugin-mtu=1400",
		"--pod-cidr", "10.1.0.0/16"}
	testutil.Must(t, flags.Parse(append(args, "--runtime-cgroups=/system.slice")))
	_, err := c.Load(flags)
	testutil.Assert(t, errors.Join(err, c.Validate()) == nil, "%v", err)
	idle := IdleFlags(flags)
	testutil.Assert(t, len(idle) == 5 && strings.HasPrefix(idle[0], "--hairpin-mode ("), "without effect: %q", idle)
	testutil.Assert(t, !strings.Contains(flags.FlagUsages(), "hairpin"), "the help shows flags without effect")
}

// A unit file written for cri-dockerd must keep working.
func TestCriDockerdFlags(t *testing.T) {
	c, err := load(t,
		"--container-runtime-endpoint=unix:///run/cri.sock", "--network-plugin=cni",
		"--cni-bin-dir=/opt/cni/bin,/usr/lib/cni", "--cni-cache-dir=/c", "--cni-conf-dir=/e",
		"--pod-infra-container-image=registry.k8s.io/pause:3.9", "--streaming-bind-addr=127.0.0.1:1",
		"--image-pull-progress-deadline=3m", "--runtime-request-timeout=90s", "--log-level=debug",
		"--docker-endpoint=unix:///d.sock", "--cri-dockerd-root-directory=/r")
	testutil.Must(t, err)
	if c.RootDirectory != "/r" || len(c.BinDirs()) != 2 || time.Duration(c.ImagePullProgressDeadline) != 3*time.Minute {
		t.Errorf("not taken over: %+v", c)
	}
}

// TestStreamingAddressWithoutAPort: cri-dockerd takes an IP address alone.
func TestStreamingAddressWithoutAPort(t *testing.T) {
	for given, want := range map[string]string{"127.0.0.1": "127.0.0.1:0", "::1": "[::1]:0", "[::1]:7": "[::1]:7"} {
		c, err := load(t, "--streaming-bind-addr="+given)
		testutil.Assert(t, err == nil && c.StreamingBindAddr == want, "%s is %s, %v", given, c.StreamingBindAddr, err)
	}
}

// cri-dockerd's own unit has the flag --network-plugin= with an empty value, which selects Docker's bridge.
func TestBridge(t *testing.T) {
	for name, want := range map[string]bool{"": true, "no-op": true, "bridge": true, "cni": false} {
		if c, err := load(t, "--network-plugin="+name); err != nil || c.Bridge() != want {
			t.Errorf("%q: %t, %v, want %t", name, c.Bridge(), err, want)
		}
	}
	if _, err := load(t, "--network-plugin=kubenet"); err == nil ||
		!strings.Contains(err.Error(), "neither cni nor bridge") {
		t.Errorf("kubenet: %v", err)
	}
}

// TestSystemdsSocket uses the endpoint of cri-dockerd's own unit.
func TestSystemdsSocket(t *testing.T) {
	c, err := load(t, "--container-runtime-endpoint", "fd://")
	testutil.Assert(t, err == nil && c.SocketPath() == "", "path %q, %v", c.SocketPath(), err)
}

func TestFileAndFlags(t *testing.T) {
	path := file(t, "log-level: debug\nruntime-request-timeout: 5s\nroot-directory: /from/file\n")
	c, err := load(t, "--config", path, "--root-directory", "/from/flag")
	testutil.Must(t, err)
	testutil.Assert(t, c.LogLevel == "debug" && time.Duration(c.RuntimeRequestTimeout) == 5*time.Second,
		"the file's values are missing: %+v", c)
	testutil.Assert(t, c.RootDirectory == "/from/flag", "the flag lost against the file: %q", c.RootDirectory)
}

func TestRefusalsNameTheFlag(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"tcp endpoint":    {[]string{"--container-runtime-endpoint=tcp://1.2.3.4:5"}, "--container-runtime-endpoint"},
		"numbered fd":     {[]string{"--container-runtime-endpoint=fd://3"}, "--container-runtime-endpoint"},
		"relative socket": {[]string{"--container-runtime-endpoint=unix://run/x"}, "--container-runtime-endpoint"},
		"streaming key":   {[]string{"--streaming-tls-cert-file=/c"}, "--streaming-tls-private-key-file"},
		"streaming idle": {[]string{"--streaming-connection-idle-timeout=0s"},
			"--streaming-connection-idle-timeout"},
		"log format":       {[]string{"--log-format=xml"}, "--log-format"},
		"metrics port":     {[]string{"--metrics-bind-addr=10250"}, "--metrics-bind-addr"},
		"metrics scheme":   {[]string{"--metrics-bind-addr=http://127.0.0.1:1"}, "--metrics-bind-addr"},
		"relative metrics": {[]string{"--metrics-bind-addr=unix://m.sock"}, "--metrics-bind-addr"},
		"profiles nowhere": {[]string{"--metrics-profiling"}, "--metrics-bind-addr"},
		"collector":        {[]string{"--tracing-endpoint=localhost:4317"}, "http://host:port"},
		"collector's path": {[]string{"--tracing-endpoint=http://localhost:4317/v1/traces"}, "http://host:port"},
		"collector's user": {[]string{"--tracing-endpoint=https://u:secret@c:4317"}, "must not have a user"},
		"sampling rate": {[]string{"--tracing-sampling-rate-per-million=1000001"},
			"--tracing-sampling-rate-per-million"},
		"long socket": {[]string{"--container-runtime-endpoint=unix:///" + strings.Repeat("x", 120)},
			"107 bytes"},
		"root":              {[]string{"--root-directory=here"}, "--root-directory"},
		"network":           {[]string{"--network-plugin=kubenet"}, "--network-plugin"},
		"no plugins":        {[]string{"--cni-bin-dir="}, "--cni-bin-dir"},
		"bind":              {[]string{"--streaming-bind-addr=localhost"}, "--streaming-bind-addr"},
		"no such port":      {[]string{"--streaming-bind-addr=localhost:65536"}, "--streaming-bind-addr"},
		"log mode":          {[]string{"--container-log-mode=plugin"}, "--container-log-mode"},
		"log buffer":        {[]string{"--container-log-buffer-size=many"}, "--container-log-buffer-size"},
		"small log buffer":  {[]string{"--container-log-buffer-size=2M"}, "--container-log-buffer-size"},
		"level":             {[]string{"--log-level=loud"}, "--log-level"},
		"deadline":          {[]string{"--image-pull-progress-deadline=0s"}, "--image-pull-progress-deadline"},
		"garbage deadline":  {[]string{"--image-pull-progress-deadline=soon"}, "not a duration"},
		"missing file":      {[]string{"--config=/does/not/exist"}, "--config"},
		"unknown file name": {[]string{"--config=" + file(t, "no-such-thing: 1\n")}, "no-such-thing"},
		"number as time":    {[]string{"--config=" + file(t, "runtime-request-timeout: 5\n")}, "in quotes"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := load(t, test.args...)
			testutil.Assert(t, err != nil && strings.Contains(err.Error(), test.want),
				"got %v, want an error with %q", err, test.want)
		})
	}
}

func FuzzFile(f *testing.F) {
	f.Add("log-level: debug\n")
	f.Add("runtime-request-timeout: 1m\n- x")
	f.Fuzz(func(t *testing.T, content string) {
		_, _ = load(t, "--config", file(t, content))
	})
}

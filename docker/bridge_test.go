package docker_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// TestBridgeDaemonJSON connects to engines whose default bridge an administrator has changed. Either pods have the
// network that Kubernetes promises, or the error of the refused bridge names the setting.
func TestBridgeDaemonJSON(t *testing.T) {
	env := rigenv.Require(t)
	for name, row := range map[string]struct {
		config  map[string]any
		fault   string
		address string
	}{
		"none": {config: map[string]any{"bridge": "none"}, fault: "bridge: none"},
		"icc":  {config: map[string]any{"bridge": "", "icc": false, "iptables": true}, fault: "icc: false"},
		"ip":   {config: map[string]any{"bridge": "", "ip": "127.0.0.1"}, address: "127.0.0.1"},
		"own":  {config: map[string]any{"bridge": "", "bip": "10.213.0.1/24", "mtu": 1280}},
	} {
		t.Run(name, func(t *testing.T) {
			own, _ := startEngine(t, env, row.config)
			for _, bridge := range []bool{true, false} {
				client, err := docker.Dial(docker.Options{Host: own.Host(), Bridge: bridge})
				testutil.Must(t, err)
				features, err := client.Features(rigContext(t))
				_ = client.Close()
				testutil.Must(t, err)
				if fault := features.BridgeFault; (fault != "") != (bridge && row.fault != "") ||
					bridge && !strings.Contains(fault, row.fault) {
					t.Errorf("bridge=%t: the fault is %q, want a sentence with %q", bridge, fault, row.fault)
				}
				want := map[bool]string{true: row.address}[bridge]
				testutil.Assert(t, features.BridgeAddress == want,
					"bridge=%t: got %q, want %q", bridge, features.BridgeAddress, want)
			}
		})
	}
}

// TestReloadedDaemonJSON gives a running engine another runtime, as installers of runtimes do: the client's Features
// have it without the loss of the connection.
func TestReloadedDaemonJSON(t *testing.T) {
	own, env := startEngine(t, rigenv.Require(t), nil)
	client := dialRig(t, env)
	watchEvents(t, client)
	for _, name := range []string{"added", "another"} {
		path := filepath.Join(filepath.Dir(own.LogPath()), "daemon.json")
		text, err := os.ReadFile(path)
		testutil.Must(t, err)
		var config map[string]any
		testutil.Must(t, json.Unmarshal(text, &config))
		config["runtimes"] = map[string]any{name: map[string]any{"path": "runc"}}
		text, err = json.Marshal(config)
		testutil.Must(t, err)
		testutil.Must(t, os.WriteFile(path, text, 0o644))
		testutil.Must(t, syscall.Kill(own.PID(), syscall.SIGHUP))
		testutil.Until(t, "the runtime "+name+" is known", func() bool {
			features, err := client.Features(rigContext(t))
			return err == nil && slices.Contains(features.Runtimes, name)
		})
	}
}

// watchEvents makes the client subscribe to events until stop is called or the test ends.
func watchEvents(t *testing.T, client *docker.Client) (stop func()) {
	t.Helper()
	subscribed := make(chan struct{})
	stop = testutil.Background(t, func(ctx context.Context) error {
		_ = client.Events(ctx,
			docker.EventsOptions{Handle: func(docker.Event) {}, Subscribed: func() { close(subscribed) }})
		return nil
	})
	<-subscribed
	return stop
}

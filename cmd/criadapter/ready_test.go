package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
	"time"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/cmd/criadapter/command"
	"github.com/criadapter/criadapter/cni"
	"github.com/criadapter/criadapter/docker/dockertest"
	"github.com/criadapter/criadapter/internal/config"
	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/state"
)

// With an engine the server is ready when its pods are recovered, not before. A reload before the recovery sends no
// message to systemd.
func TestReadyAfterRecovery(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	systemd := listenTo(t, path)
	t.Setenv("NOTIFY_SOCKET", path)
	engine := dockertest.New(dockertest.Options{})
	t.Cleanup(engine.Close)
	store, err := checkpoint.Open(t.TempDir())
	testutil.Must(t, err)
	s := &services{cache: state.New(state.Options{Engine: engine, Records: store}), recovered: make(chan struct{}),
		network: &cni.Network{}}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = s.cache.Run(t.Context())
	}()
	t.Cleanup(func() { <-ended })
	done := make(chan struct{})
	go func() {
		defer close(done)
		notifyReady(t.Context(), s)
	}()
	testutil.Eventually(t, s.cache.Err)
	hangups, reloads := make(chan os.Signal), make(chan bool)
	settings := command.Settings{Reload: func() (config.Config, error) {
		reloads <- true
		return config.Config{}, errors.New("there is no file")
	}}
	testutil.Background(t, func(ctx context.Context) error { followReloads(ctx, hangups, settings, s); return nil })
	hangups <- syscall.SIGHUP
	<-reloads
	select {
	case message := <-systemd.messages:
		t.Errorf("before the recovery systemd gets %q", message)
	case <-time.After(100 * time.Millisecond):
	}
	close(s.recovered)
	testutil.Equal(t, systemd.wait("READY=1"), "READY=1\nSTATUS=Serving CRI, 0 pods and 0 containers", "systemd gets")
	<-done
	hangups <- syscall.SIGHUP
	<-reloads
	message := systemd.wait("RELOADING=1")
	testutil.Assert(t, regexp.MustCompile(`^RELOADING=1\nMONOTONIC_USEC=[0-9]+\n$`).MatchString(message),
		"systemd gets %q", message)
	systemd.wait("READY=1")
}

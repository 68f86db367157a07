package main

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/docker/dockertest"
	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/state"
)

// With an engine the server is ready when its pods are recovered, not before.
func TestReadyAfterRecovery(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	systemd := listenTo(t, path)
	t.Setenv("NOTIFY_SOCKET", path)
	engine := dockertest.New(dockertest.Options{})
	t.Cleanup(engine.Close)
	store, err := checkpoint.Open(t.TempDir())
	testutil.Must(t, err)
	s := &services{cache: state.New(state.Options{Engine: engine, Records: store}), recovered: make(chan struct{})}
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
	select {
	case message := <-systemd.messages:
		t.Errorf("before the recovery systemd gets %q", message)
	case <-time.After(100 * time.Millisecond):
	}
	close(s.recovered)
	testutil.Equal(t, systemd.wait("READY=1"), "READY=1\nSTATUS=Serving CRI, 0 pods and 0 containers", "systemd gets")
	<-done
}

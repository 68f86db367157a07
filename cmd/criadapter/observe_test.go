package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"

	"github.com/criadapter/criadapter/internal/config"
	"github.com/criadapter/criadapter/internal/testutil"
)

func TestMetricsAreForThisMachineAlone(t *testing.T) {
	cfg := config.Default()
	listener, err := listenMetrics(cfg)
	testutil.Assert(t, listener == nil && err == nil, "by default: %v, %v", listener, err)
	for _, address := range []string{"0.0.0.0:0", ":0", "[::]:0", "192.0.2.1:0"} {
		cfg.MetricsBindAddr = address
		if _, err := listenMetrics(cfg); err == nil || !strings.Contains(err.Error(), "not a loopback address") {
			t.Errorf("%s: %v", address, err)
		}
	}
	socket := filepath.Join(t.TempDir(), "run", "metrics.sock")
	for _, address := range []string{"127.0.0.1:0", "localhost:0", "unix://" + socket} {
		cfg.MetricsBindAddr = address
		listener, err := listenMetrics(cfg)
		testutil.Must(t, err)
		if info, err := os.Stat(socket); strings.HasPrefix(address, "unix") &&
			(err != nil || info.Mode().Perm() != 0o600) {
			t.Errorf("the socket is %v, %v", info, err)
		}
		testutil.Check(t, listener.Close())
	}
	testutil.Must(t, os.WriteFile(socket, nil, 0o600))
	_, err = listenMetrics(cfg)
	testutil.Assert(t, err != nil && strings.Contains(err.Error(), "--metrics-bind-addr"), "over a file: %v", err)
}

func TestTraceErrorsAreLoggedWhenTheirTextChanges(t *testing.T) {
	logger := logrus.StandardLogger()
	hooks, out := logger.ReplaceHooks(logrus.LevelHooks{}), logger.Out
	hook := logtest.NewGlobal()
	logger.SetOutput(io.Discard)
	t.Cleanup(func() { logger.ReplaceHooks(hooks); logger.SetOutput(out) })
	handler := &traceErrors{}
	for _, text := range []string{"away", "away", "full", "full", "away"} {
		handler.Handle(errors.New(text))
	}
	testutil.Equal(t, len(hook.AllEntries()), 3, "lines")
}

// Command criadapter serves the Kubernetes Container Runtime Interface on a
// unix socket and runs pods on the local Docker Engine.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/sirupsen/logrus"

	"github.com/criadapter/criadapter/cmd/criadapter/command"
	"github.com/criadapter/criadapter/internal/config"
)

// version is set at link time.
var version = "unknown"

// gcPercent lets the heap grow by a third between two collections, where GOGC is not set. What lives is a few
// megabytes, quickly marked, and a node's memory is its pods'.
const gcPercent = 33

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command.Root(command.Options{Version: version, Serve: serve, Migrate: migration}).ExecuteContext(ctx); err != nil {
		os.Exit(exitCode(err))
	}
}

// exitCode tells what went wrong, unless the command has said it already.
func exitCode(err error) int {
	var exit *command.ExitError
	if errors.As(err, &exit) {
		return exit.Code
	}
	fmt.Fprintf(os.Stderr, "criadapter: %v\n", err)
	return 1
}

// serve sets the process up and runs the server until ctx ends.
func serve(ctx context.Context, settings command.Settings) error {
	cfg := settings.Config
	if !cfg.MetricsProfiling {
		runtime.MemProfileRate = 0 // what is sampled takes a megabyte
	}
	quietKlog()
	if err := setUpLog(cfg); err != nil {
		return err
	}
	if err := noCores(); err != nil {
		return fmt.Errorf("turning core dumps off: %w", err)
	}
	if len(settings.Idle) > 0 {
		logrus.WithField("flags", strings.Join(settings.Idle, ", ")).Warn("flags of cri-dockerd that have no effect here")
	}
	hangups, stop := surviveSignals()
	defer stop()
	return run(ctx, settings, hangups)
}

// setUpLog may be called again while other goroutines log.
func setUpLog(cfg config.Config) error {
	level, err := logrus.ParseLevel(cfg.LogLevel)
	if err != nil {
		return err
	}
	logrus.SetLevel(level)
	const timestamp = "2006-01-02T15:04:05.000Z07:00"
	if cfg.LogFormat == config.LogJSON {
		logrus.SetFormatter(&logrus.JSONFormatter{TimestampFormat: timestamp})
	} else {
		logrus.SetFormatter(&logrus.TextFormatter{FullTimestamp: true, TimestampFormat: timestamp})
	}
	return nil
}

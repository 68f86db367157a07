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
	"github.com/criadapter/criadapter/ociexec"
)

// version is set by the linker.
var version = "unknown"

// gcPercent lets the heap grow by a third between two collections, unless GOGC is set. The live heap is a few megabytes
// and quickly marked, and the pods need the node's memory.
const gcPercent = 33

func main() {
	ociexec.RunKeeper()
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command.Root(command.Options{Version: version, Serve: serve, Migrate: migration}).
		ExecuteContext(ctx); err != nil {
		os.Exit(exitCode(err))
	}
}

// exitCode prints the error, unless the command has printed it, and returns the exit code.
func exitCode(err error) int {
	var exit *command.ExitError
	if errors.As(err, &exit) {
		return exit.Code
	}
	fmt.Fprintf(os.Stderr, "criadapter: %v\n", err)
	return 1
}

// serve prepares the process and runs the server until ctx ends.
func serve(ctx context.Context, settings command.Settings) error {
	cfg := settings.Config
	if !cfg.MetricsProfiling {
		runtime.MemProfileRate = 0 // the samples would take a megabyte
	}
	quietKlog()
	if err := setUpLog(cfg); err != nil {
		return err
	}
	if err := noCores(); err != nil {
		return fmt.Errorf("turning core dumps off: %w", err)
	}
	if len(settings.Idle) > 0 {
		logrus.WithField("flags", strings.Join(settings.Idle, ", ")).
			Warn("flags of cri-dockerd that have no effect here")
	}
	hangups, stop := surviveSignals()
	defer stop()
	return run(ctx, settings, hangups)
}

// setUpLog configures the log. It is safe while other goroutines log.
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

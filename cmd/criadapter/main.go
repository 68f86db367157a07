// Command criadapter serves the Kubernetes Container Runtime Interface on a
// unix socket and runs pods on the local Docker Engine.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"

	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"

	"github.com/criadapter/criadapter/config"
)

// version is set at link time.
var version = "unknown"

const long = `criadapter runs Kubernetes pods on Docker Engine: it serves CRI v1 on a unix
socket for a kubelet, crictl or any other CRI client.

The defaults fit a plain Docker host with CNI plugins in /opt/cni/bin and a
configuration in /etc/cni/net.d. Point the clients at it:

  kubelet --container-runtime-endpoint unix:///run/criadapter/criadapter.sock
  crictl  --runtime-endpoint           unix:///run/criadapter/criadapter.sock info

It may be started before the engine, and it stops no pod when it ends.`

const example = `  # a Docker host without CNI plugins: pods on Docker's default bridge
  criadapter --network-plugin bridge

  # next to another runtime, with everything in one place
  criadapter --container-runtime-endpoint unix:///tmp/c/cri.sock --root-directory /tmp/c/state`

// gcPercent lets the heap grow by a third between two collections, where GOGC is
// not set. What lives is a few megabytes, quickly marked, and a node's memory is
// its pods'.
const gcPercent = 33

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command().ExecuteContext(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "criadapter: %v\n", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	cfg := config.Default()
	cmd := &cobra.Command{
		Use:           "criadapter",
		Short:         "The Container Runtime Interface on Docker Engine",
		Long:          long,
		Example:       example,
		Version:       version,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cfg.Load(cmd.Flags()); err != nil {
				return err
			}
			if err := cfg.Validate(); err != nil {
				return err
			}
			if !cfg.MetricsProfiling {
				runtime.MemProfileRate = 0 // what is sampled takes a megabyte
			}
			if err := setUpLog(cfg); err != nil {
				return err
			}
			return run(cmd.Context(), cfg)
		},
	}
	cfg.AddFlags(cmd.Flags())
	cmd.Flags().SortFlags = false
	return cmd
}

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
	quietKlog()
	return nil
}

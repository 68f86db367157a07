// Command kubelet-core runs the pods of a manifest directory, of a URL or of an API server on any CRI runtime, as
// cmd/kubelet does. Like kubectl, it also shows these pods, without a cluster.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"github.com/criadapter/criadapter/cmd/kubelet-core/client"
)

// version is set at link time.
var version = "unknown"

const long = `kubelet-core is the core of a kubelet: it runs the pods of a directory on any CRI
runtime, restarts what ends, probes, rotates logs, cleans up. It needs no cluster,
and with a kubeconfig it is a node of one.`

const example = `  # pods from a directory, on criadapter
  kubelet-core run --manifests /etc/kubelet-core/manifests

  # a node of a cluster, with kubectl logs and exec
  kubelet-core run --kubeconfig node.kubeconfig --client-ca-file ca.crt

  # the pods of a file until Ctrl-C, with their logs
  kubelet-core play web.yaml --follow

  # on containerd
  kubelet-core run --manifests ./pods --container-runtime-endpoint unix:///run/containerd/containerd.sock`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	if err := command().ExecuteContext(ctx); err != nil {
		var exit *client.ExitError
		if errors.As(err, &exit) {
			os.Exit(exit.Code) // the exit code of the command in the container
		}
		fmt.Fprintf(os.Stderr, "kubelet-core: %v\n", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	root := &cobra.Command{
		Use: "kubelet-core", Short: "The core of a kubelet", Long: long, Example: example, Version: version,
		SilenceUsage: true, SilenceErrors: true,
		PersistentPreRun: func(*cobra.Command, []string) {
			// The CRI client logs each failed call, and also returns the error.
			klog.SetLogger(logr.Discard())
		},
	}
	root.AddCommand(runCommand(), checkCommand(), configCommand(), getCommand(),
		describeCommand(), logsCommand(), execCommand(), playCommand(),
		downCommand())
	return root
}

func setUpLog(level string) error {
	parsed, err := logrus.ParseLevel(level)
	if err != nil {
		return err
	}
	logrus.SetLevel(parsed)
	logrus.SetFormatter(&logrus.TextFormatter{FullTimestamp: true, TimestampFormat: "2006-01-02T15:04:05.000Z07:00"})
	return nil
}

package command

import (
	"github.com/go-logr/logr"
	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
)

const long = `kubelet-core is the core of a kubelet: it runs the pods of a directory on any CRI
runtime, restarts containers, probes them, rotates logs, and cleans up. It needs no cluster.
With a kubeconfig it is a node of a cluster.`

const example = `  # pods from a directory, on criadapter
  kubelet-core run --manifests /etc/kubelet-core/manifests

  # a node of a cluster, with kubectl logs and exec
  kubelet-core run --kubeconfig node.kubeconfig --client-ca-file ca.crt

  # the pods of a file until Ctrl-C, with their logs
  kubelet-core play web.yaml --follow

  # on containerd
  kubelet-core run --manifests ./pods --container-runtime-endpoint unix:///run/containerd/containerd.sock`

// Root returns the command kubelet-core with all its subcommands. version is the program's version.
func Root(version string) *cobra.Command {
	root := &cobra.Command{
		Use: "kubelet-core", Short: "The core of a kubelet", Long: long, Example: example, Version: version,
		SilenceUsage: true, SilenceErrors: true,
		PersistentPreRun: func(*cobra.Command, []string) {
			// The CRI client logs each failed call, and also returns the error.
			klog.SetLogger(logr.Discard())
		},
	}
	root.AddCommand(runCommand(), checkCommand(), configCommand(), getCommand(),
		describeCommand(), logsCommand(), execCommand(), topCommand(), playCommand(),
		downCommand(), generateCommand())
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

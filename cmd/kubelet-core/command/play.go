package command

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/containerd/errdefs"
	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/criadapter/criadapter/cmd/kubelet-core/play"
)

// playFlags are the flags of play and down.
type playFlags struct {
	opts  play.Options
	level string
}

func (f *playFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.SortFlags = false
	k := &f.opts.Kubelet
	flags.StringVar(&f.opts.Name, "name", "",
		"the `name` of the play (default: the name of the first file, without its extension)")
	flags.StringVar(&k.RuntimeEndpoint, "container-runtime-endpoint", "unix:///run/criadapter/criadapter.sock",
		"the CRI `socket`")
	flags.StringVar(&k.RootDir, "root-dir", "",
		"the `directory` of the play, removed at its end (default /var/lib/kubelet-core/play-NAME)")
	flags.StringVar(&k.ClaimsDir, "claims-dir", "",
		"the `directory` of persistentVolumeClaims, which stay (default /var/lib/kubelet-core/claims)")
	flags.StringVar(&k.PodLogsDir, "pod-logs-dir", "",
		"the `directory` of container logs, removed at the end of the play (default "+
			"/var/log/kubelet-core/play-NAME)")
	flags.StringVar(&k.CgroupRoot, "cgroup-root", "",
		"the parent `cgroup` of the pods' cgroups (default kubelet-core/play-NAME)")
	flags.StringVar((*string)(&k.CgroupDriver), "cgroup-driver", "",
		"the cgroup `driver` for a runtime that does not report its own: cgroupfs or systemd")
	flags.StringVar(&k.ReadAddress, "read-address", "",
		"the loopback `address` of the read-only endpoint for get, describe, logs and exec (default: none)")
	flags.BoolVar(&k.BesideKubelet, "beside-kubelet", false,
		"start although a kubelet seems to run on this machine; a kubelet on the same runtime kills the pods")
	flags.StringVar(&f.level, "log-level", "error", "log level for stderr: error, warn, info, debug, trace")
}

// complete sets the play's name and its output.
func (f *playFlags) complete(cmd *cobra.Command, files []string) error {
	if f.opts.Name == "" && len(files) > 0 {
		base := filepath.Base(files[0])
		f.opts.Name = strings.TrimSuffix(base, filepath.Ext(base))
		if files[0] == "-" {
			f.opts.Name = "stdin"
		}
	}
	if f.opts.Name == "" {
		return fmt.Errorf("%s: a file or --name is required: %w", cmd.Name(), errdefs.ErrInvalidArgument)
	}
	f.opts.Out = cmd.OutOrStdout()
	f.opts.Colours = isTerminal(f.opts.Out)
	logrus.SetOutput(cmd.ErrOrStderr())
	return setUpLog(f.level)
}

func isTerminal(out io.Writer) bool {
	file, ok := out.(*os.File)
	return ok && os.Getenv("NO_COLOR") == "" && term.IsTerminal(int(file.Fd()))
}

func playCommand() *cobra.Command {
	var flags playFlags
	cmd := &cobra.Command{
		Use: "play FILE...", Short: "Run the pods of some files until Ctrl-C, and leave nothing",
		Long: `play runs the Pods, Deployments, DaemonSets and Jobs of some files, or of - for standard input,
with their ConfigMaps, Secrets, PersistentVolumeClaims and Services, as podman kube play does. It stays until
Ctrl-C, or kubelet-core down, or until all pods have ended. Then it ends the pods in order, and removes
everything that it made except images and the directories of claims. A second Ctrl-C does not wait for that,
and prints what is left.`,
		Example: "  kubelet-core play web.yaml --follow\n  kubectl create deployment web --image=nginx " +
			"--dry-run=client -o yaml | kubelet-core play -",
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, files []string) error {
			set, err := play.Read(files, cmd.InOrStdin())
			if err != nil {
				return err
			}
			if err := flags.complete(cmd, files); err != nil {
				return err
			}
			abort := make(chan os.Signal, 1)
			stop := context.AfterFunc(cmd.Context(), func() { signal.Notify(abort, os.Interrupt, syscall.SIGTERM) })
			defer stop()
			flags.opts.Abort = abort
			return play.Up(cmd.Context(), set, flags.opts)
		},
	}
	flags.add(cmd)
	cmd.Flags().BoolVarP(&flags.opts.Follow, "follow", "f", false,
		"write the containers' logs, each line with its pod and container")
	return cmd
}

func downCommand() *cobra.Command {
	var flags playFlags
	cmd := &cobra.Command{
		Use: "down [FILE...]", Short: "End a running play, or clean up after one that crashed",
		RunE: func(cmd *cobra.Command, files []string) error {
			if err := flags.complete(cmd, files); err != nil {
				return err
			}
			return play.Down(cmd.Context(), flags.opts)
		},
	}
	flags.add(cmd)
	return cmd
}

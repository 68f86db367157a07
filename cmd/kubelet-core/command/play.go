package command

import (
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/criadapter/criadapter/cmd/kubelet-core/play"
	"github.com/criadapter/criadapter/kubelet"
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
		"the loopback `address` of the read-only endpoint for get, describe, logs, exec and top (default: none)")
	flags.BoolVar(&k.BesideKubelet, "beside-kubelet", false,
		"start although a kubelet seems to run on this machine; a kubelet on the same runtime kills the pods")
	flags.StringVar(&f.level, "log-level", "error", "log level for stderr: error, warn, info, debug, trace")
}

// complete sets the play's name and its output.
func (f *playFlags) complete(cmd *cobra.Command, files []string) error {
	if f.opts.Name == "" && len(files) > 0 {
		f.opts.Name = defaultName(files[0])
	}
	if f.opts.Name == "" {
		return fmt.Errorf("%s: a file or --name is required: %w", cmd.Name(), errdefs.ErrInvalidArgument)
	}
	f.opts.Out = cmd.OutOrStdout()
	f.opts.Width = window(f.opts.Out)
	f.opts.Colours = f.opts.Width != nil && os.Getenv("NO_COLOR") == ""
	logrus.SetOutput(cmd.ErrOrStderr())
	return setUpLog(f.level)
}

// defaultName is the name of a file without its extension.
func defaultName(file string) string {
	if file == "-" {
		return "stdin"
	}
	if address, err := url.Parse(file); err == nil && play.IsURL(file) {
		file = address.Path
	}
	base := filepath.Base(file)
	return strings.TrimSuffix(base, filepath.Ext(base))
}

// window returns a function for the columns of the terminal's window, or nil if out is no terminal.
func window(out io.Writer) func() int {
	file, ok := out.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return nil
	}
	return func() int {
		if width, _, err := term.GetSize(int(file.Fd())); err == nil && width > 0 {
			return width
		}
		return 80
	}
}

func downCommand() *cobra.Command {
	var flags playFlags
	var force bool
	cmd := &cobra.Command{
		Use: "down [FILE...]", Short: "End a running play, or clean up after one that crashed",
		RunE: func(cmd *cobra.Command, files []string) error {
			if err := flags.complete(cmd, files); err != nil {
				return err
			}
			if force {
				return downWithClaims(cmd, files, flags.opts)
			}
			return play.Down(cmd.Context(), flags.opts)
		},
	}
	cmd.Flags().BoolVar(&force, "force", false,
		"also remove the PersistentVolumeClaims that the files have or name, with their directories")
	flags.add(cmd)
	return cmd
}

// downWithClaims ends a play, if it runs, and then removes the claims that its files have or name.
func downWithClaims(cmd *cobra.Command, files []string, opts play.Options) error {
	if len(files) == 0 {
		return fmt.Errorf("--force: a file is required, for its claims: %w", errdefs.ErrInvalidArgument)
	}
	claims, err := play.ReadClaims(cmd.Context(), play.Input{Files: files, In: cmd.InOrStdin()})
	if err != nil {
		return err
	}
	if err := play.Down(cmd.Context(), opts); err != nil && !errdefs.IsNotFound(err) {
		return err
	}
	return kubelet.RemoveClaims(opts.Kubelet, claims)
}

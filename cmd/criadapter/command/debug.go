package command

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/containerd/log"
	"github.com/spf13/cobra"

	"github.com/criadapter/criadapter/cmd/criadapter/bundle"
	"github.com/criadapter/criadapter/internal/config"
)

// debugCommand makes the command debug, whose subcommands help developers of criadapter.
func debugCommand(opts Options) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "debug",
		Short: "Collect the data for a bug report",
		Args:  cobra.NoArgs,
	}
	cmd.AddCommand(bundleCommand(opts))
	return cmd
}

func bundleCommand(opts Options) *cobra.Command {
	cfg := config.Default()
	file, collect := "", bundle.Options{Version: opts.Version}
	cmd := &cobra.Command{
		Use:   "bundle",
		Short: "Write an archive for a bug report",
		Long: `bundle writes a .tar.gz that only its owner can read. It has the settings, the output of check and
status, names and states of pods and containers, the engine's and the network's configuration,
metrics, and the end of the server's log. It leaves out the environment, annotations, commands and
logs of containers, and hides text that looks like a password, a token or a key. Even so, look into
the archive before you send it.`,
		Example: `  criadapter debug bundle
  criadapter debug bundle --file /tmp/bug.tar.gz --log-file /var/log/criadapter.log`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if collect.Settings, err = load(cmd, &cfg); err != nil {
				return err
			}
			if err := log.SetLevel("error"); err != nil {
				return err
			}
			collect.Config = atServer(cmd.Context(), cfg, collect.Settings)
			collect.Endpoint = endpointsOf(collect.Config, collect.Settings)[0]
			if !cmd.Flags().Changed("unit") {
				collect.Unit = unitOf(collect.Endpoint)
			}
			return writeBundle(cmd, file, collect)
		},
	}
	cmd.Flags().StringVar(&file, "file", "", "the `file` to write (default: criadapter-HOST-TIME.tar.gz here)")
	cmd.Flags().StringVar(&collect.Unit, "unit", "",
		"the systemd `unit` whose log to collect (default: criadapter, or cri-docker if that serves)")
	cmd.Flags().StringVar(&collect.LogFile, "log-file", "",
		"the `file` that the server logs to, instead of a unit's log")
	cmd.Flags().StringVar(&collect.KubeletConfig, "kubelet-config", "",
		"the kubelet's configuration `file`, for the check")
	addServerFlags(cmd, &cfg, "container-runtime-endpoint")
	return cmd
}

// writeBundle writes the archive, and removes an incomplete one.
func writeBundle(cmd *cobra.Command, file string, collect bundle.Options) (err error) {
	if file == "" {
		host, _ := os.Hostname() // on an error, host is empty
		file = fmt.Sprintf("criadapter-%s-%s.tar.gz", host, time.Now().UTC().Format("20060102T150405Z"))
	}
	to, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, to.Close()); err != nil {
			err = errors.Join(err, os.Remove(file))
		}
	}()
	tell := func(name string, err error) {
		if err != nil {
			cmd.Printf("%-20s not collected: %v\n", name, err)
		} else {
			cmd.Printf("%s\n", name)
		}
	}
	if err := bundle.Write(cmd.Context(), to, strings.TrimSuffix(filepath.Base(file), ".tar.gz"), collect,
		tell); err != nil {
		return err
	}
	cmd.Printf("\nwritten to %s; look into it before you send it\n", file)
	return nil
}

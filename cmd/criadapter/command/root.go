package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/criadapter/criadapter/cmd/criadapter/settings"
	"github.com/criadapter/criadapter/internal/config"
)

// Options are the program's functions for its command line.
type Options struct {
	// Version is the program's version.
	Version string
	// Serve runs the server until ctx ends. It is called if the command line has no subcommand.
	Serve func(ctx context.Context, start Settings) error
	// Migrate runs the command migrate, which uses the server's lock and records. It writes the plan.
	Migrate func(ctx context.Context, to io.Writer, request Migration) error
}

// Settings are the settings of the server at its start.
type Settings struct {
	// Config is valid.
	Config config.Config
	// Idle lists flags of cri-dockerd that are on the command line but have no effect, each with the reason.
	Idle []string
	// Reload reads the file again, with the same command line and environment, and returns valid settings.
	Reload func() (config.Config, error)
}

const long = `criadapter runs Kubernetes pods on Docker Engine: it serves CRI v1 on a unix
socket for a kubelet, crictl or any other CRI client.

The defaults fit a plain Docker host with CNI plugins in /opt/cni/bin and a
configuration in /etc/cni/net.d. Point the clients at it:

  kubelet --container-runtime-endpoint unix:///run/criadapter/criadapter.sock
  crictl  --runtime-endpoint           unix:///run/criadapter/criadapter.sock info

It may be started before the engine, and it stops no pod when it ends.

Without a command it serves. The commands are for the operator of a node.`

const example = `  # a Docker host without CNI plugins: pods on Docker's default bridge
  criadapter --network-plugin bridge

  # next to another runtime, with everything in one place
  criadapter --container-runtime-endpoint unix:///tmp/c/cri.sock --root-directory /tmp/c/state`

// Root returns the command criadapter with all its subcommands.
func Root(opts Options) *cobra.Command {
	cfg := config.Default()
	buildInfo := false
	cmd := &cobra.Command{
		Use:     "criadapter",
		Short:   "The Container Runtime Interface on Docker Engine",
		Long:    long,
		Example: example,
		Version: opts.Version,
		// With commands, cobra refuses arguments here and suggests a similar command.
		Args:          nil,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if buildInfo {
				return printBuildInfo(cmd.OutOrStdout(), opts.Version)
			}
			again := reloader(cmd.Flags())
			if _, err := load(cmd, &cfg); err != nil {
				return err
			}
			return opts.Serve(cmd.Context(), Settings{Config: cfg, Idle: config.IdleFlags(cmd.Flags()), Reload: again})
		},
	}
	cfg.AddFlags(cmd.Flags())
	cmd.Flags().BoolVar(&buildInfo, "buildinfo", false, "print the version and the build information, and end")
	cmd.Flags().SortFlags = false
	cmd.AddCommand(commands(opts)...)
	return cmd
}

// reloader returns a function that loads the settings again, with the flags given so far.
func reloader(flags *pflag.FlagSet) func() (config.Config, error) {
	var given []*pflag.Flag
	flags.Visit(func(f *pflag.Flag) { given = append(given, f) })
	return func() (config.Config, error) {
		cfg, again := config.Default(), pflag.NewFlagSet("", pflag.ContinueOnError)
		cfg.AddFlags(again)
		for _, f := range given {
			if again.Lookup(f.Name) == nil {
				continue // a flag of cobra
			}
			if err := again.Set(f.Name, f.Value.String()); err != nil {
				return cfg, err
			}
		}
		if _, err := cfg.Load(again); err != nil {
			return cfg, err
		}
		return cfg, settings.Validate(cfg)
	}
}

// printBuildInfo prints the version and the compiler's build information.
func printBuildInfo(to io.Writer, version string) error {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return errors.New("the program was built without build information")
	}
	_, err := fmt.Fprintf(to, "criadapter %s\n%s", version, info)
	return err
}

package command

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/criadapter/criadapter/cmd/kubelet-core/configfile"
)

// defaultConfig is the configuration file that is read if it exists.
const defaultConfig = "/etc/kubelet-core/config.yaml"

// readFile sets the flags that the file names and the command line does not.
func (r *runFlags) readFile(flags *pflag.FlagSet) error {
	r.given = map[string]bool{}
	flags.Visit(func(f *pflag.Flag) { r.given[f.Name] = true })
	var err error
	if r.file, err = configfile.Read(r.config); err != nil {
		if errors.Is(err, os.ErrNotExist) && !r.given["config"] {
			return nil
		}
		return err
	}
	for _, setting := range r.file {
		if r.given[setting.Flag] {
			continue
		}
		for _, value := range setting.Values {
			if err := flags.Set(setting.Flag, value); err != nil {
				return fmt.Errorf("%s: %s: %w", r.config, setting.Field, err)
			}
		}
	}
	return nil
}

// origin says where the value of a flag is from.
func (r *runFlags) origin(flag string) string {
	if r.given[flag] {
		return "command line"
	}
	if field := settingOf(r.file, flag).Field; field != "" {
		return field + " of " + r.config
	}
	return "default"
}

// settingOf returns the setting of a flag, an empty one if the file does not set the flag.
func settingOf(settings []configfile.Setting, flag string) configfile.Setting {
	for _, s := range settings {
		if s.Flag == flag {
			return s
		}
	}
	return configfile.Setting{}
}

func configCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "config", Short: "Show or check the settings of run"}
	cmd.AddCommand(configPrintCommand(), configValidateCommand())
	return cmd
}

func configPrintCommand() *cobra.Command {
	var run runFlags
	cmd := &cobra.Command{
		Use:   "print",
		Short: "Print the settings of run, and where each value comes from",
		Long: `print reads the configuration file and the flags as run does. It writes each flag that has a value,
and where the value comes from. A flag without a line has the default that run --help shows.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := run.load(cmd.Flags()); err != nil {
				return err
			}
			return run.print(cmd.OutOrStdout(), cmd.Flags())
		},
	}
	run.add(cmd.Flags())
	return cmd
}

// print writes the flags with a value. It hides the values of headers, which may be secret.
func (r *runFlags) print(to io.Writer, flags *pflag.FlagSet) error {
	var text strings.Builder
	flags.VisitAll(func(f *pflag.Flag) {
		value := f.Value.String()
		switch {
		case f.Name == "help" || f.Name == "config" || value == "" || value == "[]":
			return
		case f.Name == "manifest-url-header":
			value = "(hidden)"
		case !f.Changed && (value == "0" || value == "0s" || value == "false"):
			return // zero means the default that the flag's help names
		}
		fmt.Fprintf(&text, "%-60s # %s\n", fmt.Sprintf("--%s=%s", f.Name, value), r.origin(f.Name))
	})
	_, err := io.WriteString(to, text.String())
	return err
}

func configValidateCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "validate [FILE]",
		Short: "Check a configuration file, /etc/kubelet-core/config.yaml by default",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var run runFlags
			flags := pflag.NewFlagSet("run", pflag.ContinueOnError)
			run.add(flags)
			path := defaultConfig
			if len(args) > 0 {
				path = args[0]
			}
			if err := flags.Set("config", path); err != nil {
				return err
			}
			if err := run.load(flags); err != nil {
				return err
			}
			if _, err := run.opts.Completed(); err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s: valid\n", path)
			return err
		},
	}
}

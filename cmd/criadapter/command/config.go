package command

import (
	"cmp"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/criadapter/criadapter/internal/config"
)

// configCommand makes the command config, which has the subcommands print and validate.
func configCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Show or check the server's settings",
		Long: `A setting is a flag of the server, a line of its YAML file (log-level: debug), or a variable of
the environment (CRIADAPTER_LOG_LEVEL=debug). A flag wins over the environment, and the
environment over the file.`,
		Args: cobra.NoArgs,
	}
	cmd.AddCommand(configPrintCommand(), configValidateCommand())
	return cmd
}

func configPrintCommand() *cobra.Command {
	cfg := config.Default()
	var output string
	cmd := &cobra.Command{
		Use:   "print",
		Short: "Show every setting with where it comes from",
		Long: `print shows every setting that a server with these flags, this environment and this file has,
and where it comes from: default, a line of the file, the environment, or a flag.`,
		Example: `  criadapter config print
  criadapter config print --config ./config.yaml --log-level debug
  criadapter config print -o yaml > config.yaml   # as a file, to start from`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			origins, err := load(cmd, &cfg)
			if err != nil {
				return err
			}
			switch output {
			case formJSON:
				return writeJSON(cmd.OutOrStdout(), origins)
			case formYAML:
				return writeYAML(cmd.OutOrStdout(), cfg)
			default:
				return writeSettings(cmd.OutOrStdout(), origins)
			}
		},
	}
	addOutput(cmd, &output, formText, formJSON, formYAML)
	addServerFlags(cmd, &cfg)
	return cmd
}

func writeYAML(to io.Writer, cfg config.Config) error {
	text, err := yaml.Marshal(cfg)
	if err != nil {
		return err
	}
	_, err = to.Write(text)
	return err
}

func writeSettings(to io.Writer, settings []config.Setting) error {
	table := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "SETTING\tVALUE\tORIGIN")
	for _, s := range settings {
		fmt.Fprintf(table, "%s\t%s\t%s\n", s.Name, cmp.Or(s.Value, "-"), s.Origin)
	}
	return table.Flush()
}

func configValidateCommand() *cobra.Command {
	cfg := config.Default()
	cmd := &cobra.Command{
		Use:   "validate [FILE]",
		Short: "Check the settings without starting the server",
		Long: `validate reports every error in the settings: an unknown name with its line, its column and the
most similar name, and a value that the server would refuse at its start. It does not open the files
and sockets in the settings, and looks up no host.`,
		Example: `  criadapter config validate
  criadapter config validate ./config.yaml`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				if err := cmd.Flags().Set("config", args[0]); err != nil {
					return err
				}
			}
			if _, err := load(cmd, &cfg); err != nil {
				return err
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), "the settings are valid")
			return err
		},
	}
	addServerFlags(cmd, &cfg)
	return cmd
}

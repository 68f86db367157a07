package command

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/criadapter/criadapter/cmd/criadapter/settings"
	"github.com/criadapter/criadapter/internal/config"
)

// Output formats of commands.
const (
	formText = "text"
	formJSON = "json"
	formYAML = "yaml"
)

// addOutput adds -o with these formats. The first one is the default.
func addOutput(cmd *cobra.Command, to *string, forms ...string) {
	cmd.Flags().StringVarP(to, "output", "o", forms[0], strings.Join(forms, " or "))
	complete := func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return forms, cobra.ShellCompDirectiveNoFileComp
	}
	if err := cmd.RegisterFlagCompletionFunc("output", complete); err != nil {
		panic(err) // the flag exists
	}
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if !slices.Contains(forms, *to) {
			return fmt.Errorf("--output: %q is none of %s", *to, strings.Join(forms, ", "))
		}
		return nil
	}
}

func writeJSON(to io.Writer, value any) error {
	encoder := json.NewEncoder(to)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}

// addServerFlags adds the server's flags to a command, so that it uses the server's settings. They are hidden except
// --config and the named ones, because the server's help lists them.
func addServerFlags(cmd *cobra.Command, cfg *config.Config, shown ...string) {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	cfg.AddFlags(flags)
	flags.VisitAll(func(f *pflag.Flag) {
		f.Hidden = f.Name != "config" && !slices.Contains(shown, f.Name)
		cmd.Flags().AddFlag(f)
	})
}

// load fills cfg from the same sources as the server, and validates it.
func load(cmd *cobra.Command, cfg *config.Config) ([]config.Setting, error) {
	origins, err := cfg.Load(cmd.Flags())
	if err != nil {
		return nil, err
	}
	return origins, settings.Validate(*cfg)
}

package command

import (
	"cmp"
	"flag"
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/criadapter/criadapter/internal/testutil"
)

var update = flag.Bool("update", false, "write the tables of docs/configuration.md")

// TestConfigurationDocument compares docs/configuration.md with the flags and the commands.
func TestConfigurationDocument(t *testing.T) {
	root := Root(Options{Version: "test"})
	const document = "../../../docs/configuration.md"
	testutil.Section(t, document, "flags", flagTable(root.Flags()), *update)
	testutil.Section(t, document, "commands", commandTable(root), *update)
}

// flagTable returns a table with every flag that the help shows.
func flagTable(flags *pflag.FlagSet) string {
	var table strings.Builder
	table.WriteString("| flag, key | default | |\n|---|---|---|\n")
	flags.VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			fmt.Fprintf(&table, "| `%s` | %s | %s |\n", f.Name, cmp.Or(code(f.DefValue), "–"), cell(f.Usage))
		}
	})
	return table.String()
}

// commandTable returns a table with every command and its own flags.
func commandTable(root *cobra.Command) string {
	var table strings.Builder
	table.WriteString("| command | | flags |\n|---|---|---|\n")
	var add func(*cobra.Command)
	add = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			if sub.Hidden || !sub.Runnable() && !sub.HasSubCommands() {
				continue
			}
			if sub.Runnable() {
				var flags []string
				sub.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
					if !f.Hidden && root.Flags().Lookup(f.Name) == nil {
						flags = append(flags, "`--"+f.Name+"` "+cell(f.Usage))
					}
				})
				fmt.Fprintf(&table, "| `%s` | %s | %s |\n", sub.CommandPath(), cell(sub.Short),
					strings.Join(flags, "; "))
			}
			add(sub)
		}
	}
	add(root)
	return table.String()
}

func code(text string) string {
	if text == "" {
		return ""
	}
	return "`" + text + "`"
}

// cell escapes a text for a cell of a Markdown table.
func cell(text string) string { return strings.ReplaceAll(text, "|", "\\|") }

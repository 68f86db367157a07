package command

import (
	"github.com/spf13/cobra"
)

// commands returns the subcommands in the order of the help. Each one has a file here with its flags and its help text.
// The work of a command is in a package of its own.
func commands(opts Options) []*cobra.Command {
	return []*cobra.Command{
		checkCommand(),
		statusCommand(),
		configCommand(),
		debugCommand(opts),
		migrateCommand(opts),
		versionCommand(opts),
	}
}

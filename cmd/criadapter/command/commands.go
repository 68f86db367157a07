package command

import (
	"github.com/spf13/cobra"
)

// commands are those beside serving, in the order of the help. A command is a file here with its flags and its text;
// what it does is in a package of its own.
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

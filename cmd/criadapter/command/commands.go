package command

import (
	"github.com/spf13/cobra"
)

// commands are the commands beside serving, in the order of the help. Each has a file here with its flags and help
// text. Its work is in a package of its own.
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

package command

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"
)

// versionCommand prints the same as --version, with the compiler and the platform.
func versionCommand(opts Options) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  criadapter version",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "criadapter %s %s %s/%s\n", opts.Version, runtime.Version(),
				runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}

package command

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/criadapter/criadapter/internal/config"
)

// Migration has the arguments of the command migrate.
type Migration struct {
	// Config is valid.
	Config config.Config
	// Back hands the node to cri-dockerd instead of taking it over.
	Back bool
	// Apply executes the plan. Without it, the plan is only shown.
	Apply bool
}

// migrateCommand moves a node between cri-dockerd and criadapter.
func migrateCommand(opts Options) *cobra.Command {
	cfg := config.Default()
	var from, to string
	apply := false
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Take a node over from cri-dockerd, or hand it back, with its pods running",
		Long: `migrate shows what criadapter would take over from cri-dockerd (or dockershim), and with --apply
does it. A start of criadapter does the same, unless --migrate=none says otherwise.

With --to it shows what cri-dockerd needs to take the node over, and with --apply makes it:
checkpoints, CNI results, and links to the logs of running containers. cri-dockerd makes such a link
only when it starts a container.

No container is stopped. criadapter must not run. For --from with --apply, cri-dockerd must not run
either. migrate takes the server's flags as well (criadapter --help).`,
		Example: `  criadapter migrate --from cri-dockerd
  criadapter migrate --to cri-dockerd --apply`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if from+to != config.MigrateCRIDockerd {
				return fmt.Errorf("give either --from %s or --to %s", config.MigrateCRIDockerd,
					config.MigrateCRIDockerd)
			}
			if _, err := load(cmd, &cfg); err != nil {
				return err
			}
			return opts.Migrate(cmd.Context(), cmd.OutOrStdout(), Migration{Config: cfg, Back: to != "", Apply: apply})
		},
	}
	cmd.Flags().StringVar(&from, "from", "", "take over the pods of this runtime: cri-dockerd (dockershim's pods, too)")
	cmd.Flags().StringVar(&to, "to", "", "hand the node over to this runtime: cri-dockerd")
	cmd.Flags().BoolVar(&apply, "apply", false, "execute the plan instead of showing it")
	addServerFlags(cmd, &cfg, "docker-endpoint")
	return cmd
}

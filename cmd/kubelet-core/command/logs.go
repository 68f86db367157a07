package command

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/criadapter/criadapter/cmd/kubelet-core/client"
)

func logsCommand() *cobra.Command {
	var flags readFlags
	var opts client.LogOptions
	var since time.Duration
	cmd := &cobra.Command{
		Use: "logs POD [CONTAINER]", Short: "Print the logs of a container",
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 2 {
				opts.Container = args[1]
			}
			if since > 0 {
				opts.Since = time.Now().Add(-since)
			}
			opts.Stdout, opts.Stderr = cmd.OutOrStdout(), cmd.ErrOrStderr()
			return flags.client().Logs(cmd.Context(), flags.ref(args[0]), opts)
		},
	}
	flags.add(cmd)
	cmd.Flags().BoolVarP(&opts.Follow, "follow", "f", false, "follow the log until the container ends")
	cmd.Flags().StringVarP(&opts.Container, "container", "c", "",
		"the `container` (default: the one in the annotation kubectl.kubernetes.io/default-container, or the first)")
	cmd.Flags().BoolVarP(&opts.Previous, "previous", "p", false,
		"print the log of the container before its last restart")
	cmd.Flags().IntVar(&opts.Tail, "tail", -1, "`lines` at the end of the log to show")
	cmd.Flags().DurationVar(&since, "since", 0, "only show lines newer than a duration, such as 5m")
	cmd.Flags().BoolVar(&opts.Timestamps, "timestamps", false, "write the timestamp before each line")
	return cmd
}

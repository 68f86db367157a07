package command

import (
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/criadapter/criadapter/cmd/kubelet-core/client"
)

func describeCommand() *cobra.Command {
	var flags readFlags
	cmd := &cobra.Command{
		Use: "describe [pod] NAME", Short: "Show details of a pod, with its events",
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 2 {
				// kubectl's spelling: describe pod NAME.
				if !slices.Contains([]string{"pod", "pods", "po"}, args[0]) {
					return cobra.MaximumNArgs(1)(cmd, args)
				}
				args = args[1:]
			}
			kubelet := flags.client()
			pod, err := kubelet.Find(cmd.Context(), flags.ref(args[0]))
			if err != nil {
				return err
			}
			events, err := kubelet.Events(cmd.Context())
			if err != nil {
				return err
			}
			return client.WriteDescription(cmd.OutOrStdout(), pod, events, time.Now())
		},
	}
	flags.add(cmd)
	return cmd
}

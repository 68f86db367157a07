package command

import (
	"github.com/spf13/cobra"

	"github.com/criadapter/criadapter/cmd/kubelet-core/client"
)

func topCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "top", Short: "Show the CPU and the memory that pods or the node use"}
	cmd.AddCommand(topPodsCommand(), topNodeCommand())
	return cmd
}

func topPodsCommand() *cobra.Command {
	var flags readFlags
	var opts client.TopOptions
	cmd := &cobra.Command{
		Use: "pods", Aliases: []string{"pod", "po"}, Args: cobra.NoArgs,
		Short: "Show the CPU and the memory that pods use",
		Example: "  kubelet-core top pods --sort-by memory\n" +
			"  watch kubelet-core top pods --containers",
		RunE: func(cmd *cobra.Command, _ []string) error {
			summary, err := flags.client().Summary(cmd.Context())
			if err != nil {
				return err
			}
			opts.Namespace = flags.namespace
			return client.WriteTop(cmd.OutOrStdout(), summary, opts)
		},
	}
	flags.add(cmd)
	cmd.Flags().BoolVar(&opts.Containers, "containers", false, "show the containers of the pods")
	cmd.Flags().StringVar(&opts.Sort, "sort-by", "", "cpu or memory, the largest first (default: by name)")
	return cmd
}

func topNodeCommand() *cobra.Command {
	var flags readFlags
	cmd := &cobra.Command{
		Use: "node", Aliases: []string{"nodes", "no"}, Args: cobra.NoArgs,
		Short: "Show the CPU and the memory that the node uses",
		RunE: func(cmd *cobra.Command, _ []string) error {
			summary, err := flags.client().Summary(cmd.Context())
			if err != nil {
				return err
			}
			return client.WriteTopNode(cmd.OutOrStdout(), summary)
		},
	}
	cmd.Flags().StringVar(&flags.address, "read-address", defaultReadAddress,
		"the `address` of the kubelet core's read-only endpoint, which its --read-address sets")
	return cmd
}

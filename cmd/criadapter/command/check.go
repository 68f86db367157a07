package command

import (
	"github.com/containerd/log"
	"github.com/spf13/cobra"

	"github.com/criadapter/criadapter/cmd/criadapter/check"
	"github.com/criadapter/criadapter/internal/config"
)

// checkCommand makes the command check, which reports problems of the node with their remedies.
func checkCommand() *cobra.Command {
	cfg := config.Default()
	var kubelet, output string
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Look for problems that keep this node from running pods",
		Long: `check looks at the engine, the kubelet's configuration, the network, sockets, disks, the kernel,
its limits, and what pods have left behind. It changes nothing, and the server need not run.
Each line is ok, warn or fail. A warning and a failure say what to do.

It takes the server's flags as well (criadapter --help), to look at what that server would use.
The exit code is 0 without a failure, 1 with one, and 2 if the settings are invalid.`,
		Example: `  criadapter check
  criadapter check --kubelet-config /var/lib/kubelet/config.yaml -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			origins, err := load(cmd, &cfg)
			if err != nil {
				cmd.PrintErrf("criadapter: %v\n", err)
				return &ExitError{Code: 2}
			}
			if err := log.SetLevel("error"); err != nil { // log lines would mix with the report
				return err
			}
			report := check.Run(cmd.Context(),
				check.Options{Config: atServer(cmd.Context(), cfg, origins), KubeletConfig: kubelet})
			if output == formJSON {
				err = writeJSON(cmd.OutOrStdout(), report)
			} else {
				err = report.WriteText(cmd.OutOrStdout())
			}
			if err == nil && report.Failures > 0 {
				err = &ExitError{Code: 1}
			}
			return err
		},
	}
	cmd.Flags().StringVar(&kubelet, "kubelet-config", "",
		"the kubelet's configuration `file` (default: /var/lib/kubelet/config.yaml if it exists)")
	addOutput(cmd, &output, formText, formJSON)
	addServerFlags(cmd, &cfg, "docker-endpoint")
	return cmd
}
